"""What the shop does later."""

from shop.models import Order

try:
    from django.tasks import task
except ImportError:  # before Django 6
    from django_tasks import task


@task(queue_name="mail")
def confirm(order_id: int) -> str:
    """Confirm an order; this runs on the worker."""
    order = Order.objects.get(pk=order_id)
    order.confirmed = True
    order.save()
    return f"{order.item} confirmed"
