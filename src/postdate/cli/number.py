"""Convert words of the command line to values, and refuse malformed numbers."""

import re
from collections.abc import Sequence
from typing import Any, Final, get_args, get_origin

import cyclopts
from cyclopts import Parameter, Token

WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,19}(\.[0-9]+)?")
DURATION: Final = re.compile(r"[0-9][0-9smhdw. ]*[smhdw]")


def convert(wanted: Any, tokens: Sequence[Token]) -> Any:
    """Convert one parameter: numbers strictly, words in any case, the rest as cyclopts does.

    cyclopts itself would round `25.50` to 26, and read `0x10` as 16.
    """
    kinds = _kinds(wanted)
    words = [token.value for token in tokens]
    texts = sorted(kind for kind in kinds if isinstance(kind, str))
    if len(words) != 1 or not {int, float} & kinds:
        return cyclopts.convert(wanted, [_known(word, texts) for word in words])
    [word] = words
    if int in kinds and WHOLE.fullmatch(word):
        return int(word)
    if float in kinds and DECIMAL.fullmatch(word):
        return float(word)
    if word in texts:
        return word
    raise ValueError(f"{word!r} is not {' or '.join([_example(kinds), *texts])}.")


def convert_seconds(wanted: Any, tokens: Sequence[Token]) -> Any:
    """Convert a duration: a number of seconds, or one with units such as 90s, 5m or 1d12h."""
    [token] = tokens
    if DURATION.fullmatch(token.value):
        from postdate.task.duration import seconds_of

        found = seconds_of(token.value)
        return int(found) if found.is_integer() else found
    try:
        return convert(wanted, tokens)
    except ValueError as error:
        raise ValueError(f"{str(error).removesuffix('.')}, or a duration such as 5m.") from None


def _example(kinds: set[Any]) -> str:
    return "a number such as 2.5" if float in kinds else "a whole number such as 25"


def _known(word: str, texts: Sequence[str]) -> str:
    """Return the word of a list that this is but for its case."""
    return next((text for text in texts if text.casefold() == word.casefold()), word)


def _kinds(wanted: Any) -> set[Any]:
    """Split a type into the members of its union and the words of its literal."""
    if get_origin(wanted) is None:
        return {wanted}
    if wanted in {*get_args(wanted)} or get_origin(wanted) in {list, tuple, dict, set}:
        return set()
    found: set[Any] = set()
    for each in get_args(wanted):
        found |= {each} if isinstance(each, str | type) else _kinds(each)
    return found


PARAMETER: Final = Parameter(converter=convert)
"""What every parameter of every command is."""
