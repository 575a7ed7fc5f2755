"""Operations of subscriptions. Written by `make docs` from the endpoints."""

from types import NoneType
from typing import Final

from postdate.client.models.subscriptions import Subscription, SubscriptionList
from postdate.client.operation import Operation

CREATE: Final = Operation("create", "POST", "/subscriptions", Subscription, keyed=True)
LIST_SUBSCRIPTIONS: Final = Operation(
    "list_subscriptions", "GET", "/subscriptions", SubscriptionList
)
SHOW: Final = Operation("show", "GET", "/subscriptions/{subscription_id}", Subscription)
CHANGE: Final = Operation("change", "PATCH", "/subscriptions/{subscription_id}", Subscription)
DELETE: Final = Operation("delete", "DELETE", "/subscriptions/{subscription_id}", NoneType)
REPLAY: Final = Operation(
    "replay", "POST", "/subscriptions/{subscription_id}/replay", Subscription, keyed=True
)
