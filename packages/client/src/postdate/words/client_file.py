"""The file by which programs beside a server find it."""

from typing import Final

import msgspec

FILE: Final = "client.json"
"""Its name in the data directory of the server."""


class ClientFile(msgspec.Struct, frozen=True):
    """What a server tells programs beside it; the key is empty where the server keeps none."""

    url: str
    api_key: str = ""
