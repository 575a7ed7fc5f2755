"""A position in an ordered list: its beginning, now, or a cursor."""

from typing import Final

from postdate.http.page import decode_cursor
from postdate.words.error import Code, refuse

NOW: Final = "now"


BEGINNING: Final = "beginning"


def read_position(given: str, field: str) -> int | None:
    """Read the position out of `beginning` or a cursor; None stands for `now`."""
    if given == NOW:
        return None
    if given == BEGINNING:
        return 0
    position = decode_cursor(given, int)
    if not 0 <= position < 2**63:
        raise refuse(Code.INVALID_CURSOR, "Pass `next_cursor` back unchanged.", field)
    return position
