"""The keys that encrypt secrets: given by the operator, or made at the first start."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from postdate.core.log import Log
from postdate.node.settings import ProcessSettings
from postdate.secret.secret import KEY_BYTES, Keyring, parse_key
from postdate.words.error import StartError

log = Log()

FILE: Final = "secret.key"


def load(settings: ProcessSettings) -> Keyring:
    """Return the keys of this node; a node that cannot store one serves what needs no key."""
    if settings.secret_key and settings.secret_key_file:
        raise StartError("give POSTDATE_SECRET_KEY or POSTDATE_SECRET_KEY_FILE, not both")
    if settings.secret_key:
        return _parse("POSTDATE_SECRET_KEY", settings.secret_key.split(","))
    if settings.secret_key_file:
        return _read(Path(settings.secret_key_file))
    own = settings.data_dir / FILE
    try:
        _make(own)
    except OSError as error:
        log.warning("secret.no_key", file=str(own), error=error.strerror)
        return Keyring([])
    return _read(own)


def _parse(source: str, texts: list[str]) -> Keyring:
    try:
        return Keyring([parse_key(text.strip()) for text in texts if text.strip()])
    except ValueError as error:
        raise StartError(f"{source} cannot be used: {error}") from error


def _read(file: Path) -> Keyring:
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"the secret key in {file} cannot be read: {error}") from error
    keyring = _parse(str(file), lines)
    if not keyring.ids:
        raise StartError(f"{file} holds no secret key: put one in, or remove the file")
    return keyring


def _make(file: Path) -> None:
    """Create a key file unless there is one, atomically."""
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as handle:
            handle.write(secrets.token_bytes(KEY_BYTES).hex() + "\n")
            handle.flush()
            os.fsync(handle.fileno())
        with suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink(missing_ok=True)
