"""Events as others see them."""

from datetime import UTC, datetime
from uuid import uuid4

import msgspec
import pytest

from postdate.model.event import Sealed, envelope


@pytest.mark.parametrize(
    ("kind", "stored", "shown"),
    [
        ("payment.completed", None, {"transfer_id": "{id}"}),
        ("payment.completed", '{"transfer_id": "older"}', {"transfer_id": "older"}),
        ("job.completed", None, {}),
        ("payment.failed", '{"code": "x"}', {"code": "x"}),
    ],
)
def test_an_event_without_data_tells_what_its_id_says(
    kind: str, stored: str | None, shown: dict[str, str]
) -> None:
    identifier = uuid4()
    sealed = Sealed(1, identifier, uuid4(), kind, datetime.now(UTC), None, stored)
    wanted = {name: text.replace("{id}", str(identifier)) for name, text in shown.items()}
    assert msgspec.json.decode(envelope(sealed, "t").data) == wanted
