"""Subscriptions: deliver events, and watch, pause and replay the delivery."""

from typing import Final

from postdate.resource.endpoints import ServedClass, serve
from postdate.subscription.change import Subscriptions
from postdate.subscription.view import SubscriptionViews

ROUTES: Final = serve(
    "events",
    ServedClass(SubscriptionViews, lambda services: services.subscription.read),
    ServedClass(Subscriptions, lambda services: services.subscription.change),
)
