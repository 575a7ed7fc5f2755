"""Operations of subscriptions. Written by `make docs` from the endpoints."""

from types import NoneType
from typing import Final

from postdate.client.models.subscriptions import Subscription, SubscriptionList
from postdate.client.operation import Operation

CREATE_SUBSCRIPTION: Final = Operation(
    "create_subscription", "POST", "/subscriptions", Subscription, keyed=True
)
LIST_SUBSCRIPTIONS: Final = Operation(
    "list_subscriptions", "GET", "/subscriptions", SubscriptionList
)
SHOW_SUBSCRIPTION: Final = Operation(
    "show_subscription", "GET", "/subscriptions/{subscription_id}", Subscription
)
CHANGE_SUBSCRIPTION: Final = Operation(
    "change_subscription", "PATCH", "/subscriptions/{subscription_id}", Subscription
)
DELETE_SUBSCRIPTION: Final = Operation(
    "delete_subscription", "DELETE", "/subscriptions/{subscription_id}", NoneType
)
REPLAY_SUBSCRIPTION: Final = Operation(
    "replay_subscription",
    "POST",
    "/subscriptions/{subscription_id}/replay",
    Subscription,
    keyed=True,
)
