"""What the shop keeps."""

from django.db import models


class Order(models.Model):
    """An order; `confirmed` is set by a task."""

    item = models.CharField(max_length=100)
    confirmed = models.BooleanField(default=False)

    def __str__(self) -> str:
        return self.item
