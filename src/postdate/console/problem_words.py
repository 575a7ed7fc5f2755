"""What is wrong with each field of a form, in the words of people."""

import re
from typing import Final

from postdate.words.error import Refusal


def problems_of(refusal: Refusal) -> dict[str, str]:
    """Return what is wrong with each field, by the field's name."""
    found = {refusal.field: in_human_words(refusal.detail)} if refusal.field else {}
    for one in refusal.extra.get("problems", ()):
        found.setdefault(one.field, in_human_words(one.detail))
    return found


_EXPECTED: Final = {
    "int": "Give a whole number",
    "float": "Give a number",
    "str": "Give a text",
    "bool": "Give yes or no",
    "object": "Give a JSON object",
    "array": "Give a list",
    "uuid": "Give an id",
    "datetime": "Give a date and a time",
}
_TYPE_PROBLEM: Final = re.compile(r"Expected `?(\w+)`?(?: \| null)?, got `?\w+`?\.?")


def in_human_words(detail: str) -> str:
    """Say to a person what the API says of types to a program."""
    return _TYPE_PROBLEM.sub(
        lambda found: _EXPECTED.get(found[1], found[0].rstrip(".")) + ".", detail
    )
