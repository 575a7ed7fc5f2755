"""The pages of the shop."""

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path

from shop.models import Order
from shop.tasks import confirm


def buy(_: HttpRequest, item: str) -> JsonResponse:
    """Take an order, and answer before it is confirmed."""
    with transaction.atomic():
        order = Order.objects.create(item=item)
        result = confirm.enqueue(order.pk)  # enqueued when this block commits
    return JsonResponse({"order": order.pk, "result": result.id}, status=202)


def look(_: HttpRequest, result_id: str) -> JsonResponse:
    """Say how far the confirmation is."""
    result = confirm.get_result(result_id)
    said = result.return_value if result.status == "SUCCESSFUL" else None
    return JsonResponse({"status": result.status, "said": said})


urlpatterns = [path("buy/<item>", buy), path("results/<result_id>", look)]
