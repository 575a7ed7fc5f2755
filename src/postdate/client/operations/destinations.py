"""Operations of destinations. Written by `make docs` from the endpoints."""

from types import NoneType
from typing import Final

from postdate.client.models.destinations import (
    CreatedDestination,
    Destination,
    DestinationList,
    DestinationTrial,
    SigningSecret,
)
from postdate.client.operation import Operation

CREATE_DESTINATION: Final = Operation(
    "create_destination", "POST", "/destinations", CreatedDestination, keyed=True
)
LIST_DESTINATIONS: Final = Operation("list_destinations", "GET", "/destinations", DestinationList)
GET_DESTINATION: Final = Operation("get_destination", "GET", "/destinations/{name}", Destination)
CHANGE_DESTINATION: Final = Operation(
    "change_destination",
    "PATCH",
    "/destinations/{name}",
    Destination,
    nulls=frozenset({"max_running", "rate_per_second"}),
)
DELETE_DESTINATION: Final = Operation(
    "delete_destination", "DELETE", "/destinations/{name}", NoneType
)
ROTATE_DESTINATION_SECRET: Final = Operation(
    "rotate_destination_secret",
    "POST",
    "/destinations/{name}/rotate-secret",
    SigningSecret,
    keyed=True,
)
DISABLE_DESTINATION: Final = Operation(
    "disable_destination", "POST", "/destinations/{name}/disable", Destination
)
ENABLE_DESTINATION: Final = Operation(
    "enable_destination", "POST", "/destinations/{name}/enable", Destination
)
TEST_DESTINATION: Final = Operation(
    "test_destination", "POST", "/destinations/{name}/test", DestinationTrial, repeatable=False
)
GET_SIGNING_SECRET: Final = Operation("get_signing_secret", "GET", "/signing-secret", SigningSecret)
ROTATE_SIGNING_SECRET: Final = Operation(
    "rotate_signing_secret", "POST", "/signing-secret/rotate", SigningSecret, keyed=True
)
