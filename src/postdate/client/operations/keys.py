"""Operations of keys. Written by `make docs` from the endpoints."""

from types import NoneType
from typing import Final

from postdate.client.models.keys import KeyList, NewKey, RotatedKey, WhoAmI
from postdate.client.operation import Operation

WHOAMI: Final = Operation("whoami", "GET", "/whoami", WhoAmI)
CREATE_KEY: Final = Operation("create_key", "POST", "/keys", NewKey, keyed=True)
LIST_KEYS: Final = Operation("list_keys", "GET", "/keys", KeyList)
REVOKE_KEY: Final = Operation("revoke_key", "DELETE", "/keys/{key_id}", NoneType)
ROTATE_KEY: Final = Operation("rotate_key", "POST", "/keys/{key_id}/rotate", RotatedKey, keyed=True)
