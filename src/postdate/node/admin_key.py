"""The file in which the first start stores the admin key."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from postdate.words.error import StartError

KEY_FILE: Final = "admin.key"


def read_key(file: Path) -> str:
    """Read the admin key that the first start stored."""
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        raise StartError(
            f"there is no key in {file}: set POSTDATE_API_KEY, or POSTDATE_DATA_DIR to where the "
            "server keeps its key"
        ) from None
    except OSError as error:
        raise StartError(f"{file} cannot be read ({error.strerror}): run as its owner") from error


def write_key(file: Path, key: str) -> None:
    """Store a new admin key, readable by its owner only."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        _fill(descriptor, file, key)
    except OSError as error:
        raise StartError(
            f"the admin key cannot be kept in {file} ({error.strerror}): make the directory "
            "writable, or set POSTDATE_ADMIN_KEY"
        ) from error


def _fill(descriptor: int, file: Path, key: str) -> None:
    """Write the key, or leave no file: the next start would take half a key for the key."""
    try:
        with os.fdopen(descriptor, "w") as handle:
            handle.write(key + "\n")
            handle.flush()
            with suppress(OSError):
                os.fsync(handle.fileno())
    except OSError:
        file.unlink(missing_ok=True)
        raise
