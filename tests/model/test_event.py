"""Events as others see them."""

from datetime import UTC, datetime
from uuid import uuid4

import msgspec
import pytest

from postdate.event.spec.event import Sealed, envelope


@pytest.mark.parametrize(
    ("kind", "stored", "shown"),
    [
        ("job.completed", None, {}),
        ("payment.failed", '{"code": "x"}', {"code": "x"}),
    ],
)
def test_an_event_without_data_shows_an_empty_object(
    kind: str, stored: str | None, shown: dict[str, str]
) -> None:
    sealed = Sealed(1, uuid4(), uuid4(), kind, datetime.now(UTC), None, stored)
    assert msgspec.json.decode(envelope(sealed, "t").data) == shown
