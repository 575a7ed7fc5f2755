"""What is shown is made from what is stored, by name."""

import msgspec
import pytest

from postdate.core.shape import shaped


class Stored(msgspec.Struct):
    name: str
    secret: str


class Shown(msgspec.Struct, kw_only=True):
    name: str
    length: int = 0


def test_a_shape_takes_what_has_the_same_name_and_what_is_derived() -> None:
    assert shaped(Shown, Stored("rent", "s"), length=4) == Shown(name="rent", length=4)


def test_a_field_that_nobody_gives_is_an_error_though_it_has_a_default() -> None:
    with pytest.raises(AttributeError, match="length"):
        shaped(Shown, Stored("rent", "s"))


def test_what_is_derived_belongs_to_the_caller() -> None:
    derived = {"length": 4}
    shaped(Shown, Stored("rent", "s"), **derived)
    assert derived == {"length": 4}
