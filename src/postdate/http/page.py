"""Pages of a list: `limit`, an opaque `cursor`, `next_cursor`."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Any, Final, TypeVar

import msgspec

from postdate.http.endpoint import Query
from postdate.words.error import Code, refuse

T = TypeVar("T")
D = TypeVar("D")

DEFAULT_PAGE: Final = 20
MAX_PAGE: Final = 100


class PageQuery(Query):
    """The query parameters of every list; a list with filters extends it."""

    limit: Annotated[
        int, msgspec.Meta(ge=1, le=MAX_PAGE, description="Maximum number of items to return.")
    ] = DEFAULT_PAGE
    cursor: Annotated[
        str | None, msgspec.Meta(description="`next_cursor` of the previous page.")
    ] = None

    def start(self, shape: type[T], first: D) -> T | D:
        """Return the position at which this page begins; without a cursor it is the first."""
        return decode_cursor(self.cursor, shape) if self.cursor else first


def next_cursor(position: Any | None) -> str | None:
    """Return the cursor of the next page; None where there is none."""
    return None if position is None else encode_cursor(position)


def encode_cursor(position: Any) -> str:
    """Encode the position at which the next page begins."""
    return urlsafe_b64encode(msgspec.json.encode(position)).rstrip(b"=").decode("ascii")


def decode_cursor(cursor: str, shape: type[T]) -> T:
    """Decode a cursor; one that we did not make is refused."""
    try:
        data = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        return msgspec.json.decode(data, type=shape)
    except (ValueError, msgspec.DecodeError):
        detail = "Pass `next_cursor` back unchanged."
        raise refuse(Code.INVALID_CURSOR, detail, "cursor") from None
