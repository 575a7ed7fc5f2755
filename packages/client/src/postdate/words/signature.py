"""Standard Webhooks: the headers by which a receiver knows that a call is ours and is fresh."""

import base64
import binascii
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32


def new_secret() -> str:
    """Make a secret in the form that receivers are given."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def secret_bytes(text: str) -> bytes | None:
    """Read a secret of 24 to 64 bytes; None if it is not one."""
    try:
        found = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return found if 24 <= len(found) <= 64 else None  # noqa: PLR2004 - the standard's bounds


def sign(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """Sign with each key: two of them while a secret is being rotated."""
    message = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(
        "v1," + base64.b64encode(hmac.digest(key, message, "sha256")).decode() for key in keys
    )
