"""Pages of a list: `limit`, an opaque `cursor`, `next_cursor`."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Any, Final, TypeVar

import msgspec

from postdate.api.http.endpoint import Query
from postdate.model.error import Code, refuse

T = TypeVar("T")

DEFAULT_PAGE: Final = 20
MAX_PAGE: Final = 100


class PageQuery(Query):
    """The query parameters of every list; a list with filters extends it."""

    limit: Annotated[
        int, msgspec.Meta(ge=1, le=MAX_PAGE, description="How many items to return at most.")
    ] = DEFAULT_PAGE
    cursor: Annotated[str | None, msgspec.Meta(description="`next_cursor` of the page before.")] = (
        None
    )


def encode_cursor(position: Any) -> str:
    """Make a cursor of the place where the next page begins."""
    return urlsafe_b64encode(msgspec.json.encode(position)).rstrip(b"=").decode("ascii")


def decode_cursor(cursor: str, shape: type[T]) -> T:
    """Read a cursor back; one that is not ours is refused."""
    try:
        data = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        return msgspec.json.decode(data, type=shape)
    except (ValueError, msgspec.DecodeError):
        detail = "Pass `next_cursor` back exactly as it came."
        raise refuse(Code.INVALID_CURSOR, detail, "cursor") from None
