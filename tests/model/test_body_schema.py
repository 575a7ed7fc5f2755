"""The fields of a form follow from the types of a body, also inside unions, lists and objects."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import UNSET, Meta, UnsetType

from postdate.console.body_schema import BodySchema, label_of
from postdate.console.form_field import FieldSpec, FormField
from postdate.core.identity import Scope
from postdate.http.endpoint import Body, Call, Reply
from postdate.http.routes import Routes

ROUTES = Routes("jobs")


class Colour(StrEnum):
    """Two of them."""

    RED = "red"
    BLUE = "blue"


class ByMail(Body, kw_only=True, tag="mail"):
    """One way."""

    address: Annotated[str, Meta(max_length=9)]
    copies: int = 1


class ByHand(Body, kw_only=True, tag="hand"):
    """Another way."""


class OrderBody(Body, kw_only=True, rename={"begin": "from"}):
    """A body with every kind of field."""

    way: ByMail | ByHand
    begin: Annotated[datetime, Meta(tz=True)]
    colour: Colour = Colour.RED
    size: Annotated[int, Meta(ge=1, le=100, description="How large it is.", examples=[7])] | None
    weight: Annotated[float, Meta(ge=0, le=2**60)] | UnsetType = UNSET
    tags: list[str] = msgspec.field(default_factory=list)
    scopes: list[Literal["a", "b"]] = msgspec.field(default_factory=list)
    payload: Any = None
    value: int | bool | str
    sure: bool = False
    pin: Annotated[str, Meta(extra={"secret": True})] = ""
    steps: list[ByMail | ByHand] = msgspec.field(default_factory=list)


@ROUTES.add("POST", "/orders", Scope.ADMIN)
async def create_job(_: Call[None, OrderBody, None]) -> Reply:
    """Order it."""
    return Reply()


@ROUTES.add("POST", "/orders/nothing", Scope.ADMIN)
async def cancel_job(_: Call[None, None, None]) -> Reply:
    """Order nothing."""
    return Reply()


def field(name: str, fixed: dict[str, Any] | None = None, **more: Any) -> FormField:
    return BodySchema(ROUTES.endpoints[0], fixed or {}).field(FieldSpec(name, **more))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("way.type", "choice"),
        ("way.address", "text"),
        ("way.copies", "whole"),
        ("from", "datetime-local"),
        ("colour", "choice"),
        ("size", "whole"),
        ("weight", "decimal"),
        ("tags", "lines"),
        ("scopes", "lines"),
        ("payload", "json"),
        ("way", "json"),
        ("value", "scalar"),
        ("sure", "checkbox"),
        ("pin", "text"),
        ("steps", "json"),
        ("steps.0.address", "text"),
    ],
)
def test_a_kind_follows_from_the_type(name: str, kind: str) -> None:
    assert field(name).kind == kind


def test_choices_bounds_examples_and_hints_are_those_of_the_type() -> None:
    assert field("way.type").choices == ("mail", "hand")
    assert set(field("colour").choices) == {"red", "blue"}
    assert "`red` if empty" in field("colour").hint
    size = field("size")
    assert (size.hint, size.example) == ("How large it is; 1 to 100", "7")
    assert "at least 0" in field("weight").hint
    assert "one a line: a, b" in field("scopes").hint
    assert field("way.address").max_length == 9
    assert [name for name in ("pin", "tags") if field(name).secret] == ["pin"]


def test_required_is_what_the_api_refuses_to_miss() -> None:
    required = {"way.type", "from", "size", "value"}
    optional = {"colour", "weight", "tags", "way.copies", "way.address"}
    assert {name for name in required | optional if field(name).required} == required
    assert field("way.address", {"way.type": "mail"}).required
    assert (field("size").nullable, field("colour").nullable) == (True, False)
    insisted = field("pin", required=True)
    assert (insisted.required, insisted.insisted) == (True, True)
    assert (field("from", required=True).insisted) is False


def test_what_the_body_does_not_have_is_refused() -> None:
    for name in ("nothing", "way.nothing", "steps.address", "size.more"):
        with pytest.raises(LookupError, match=f"create_job has no field {name}"):
            field(name)
    empty = BodySchema(ROUTES.endpoints[1], {})
    assert (empty.names(), empty.required) == ([], ())


def test_all_fields_are_in_the_order_of_the_body() -> None:
    names = BodySchema(ROUTES.endpoints[0], {}).names()
    assert names == [each.encode_name for each in msgspec.structs.fields(OrderBody)]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("from_account_id", "From account"),
        ("delay_seconds", "Delay (seconds)"),
        ("seconds", "Seconds"),
        ("template.job.lane", "Job lane"),
        ("changes.0.filter.schedule_id", "Schedule"),
        ("changes", "Changes"),
        ("destination.url", "Destination URL"),
        ("misfire.late_after_seconds", "Misfire late after (seconds)"),
    ],
)
def test_a_label_is_the_path_in_words(name: str, label: str) -> None:
    assert label_of(name) == label
