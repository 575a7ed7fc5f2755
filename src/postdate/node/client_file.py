"""The file by which programs beside a server find it: its address, and the key that it keeps."""

import os
from pathlib import Path

import msgspec

from postdate.core.log import Log
from postdate.node.admin_key import KEY_FILE, read_key
from postdate.node.settings import ProcessSettings
from postdate.words.client_file import FILE, ClientFile

log = Log()


def write_client_file(url: str, settings: ProcessSettings) -> None:
    """Write it for the owner only; a key that the environment gave is not put on a disk.

    Without a data directory no command runs beside this server, and nothing is written. Nothing
    depends on the file, so a disk that refuses it stops no server.
    """
    if not settings.data_dir.is_dir():
        return
    kept = settings.data_dir / KEY_FILE
    key = read_key(kept) if not settings.admin_key and kept.exists() else ""
    try:
        _replace(settings.data_dir / FILE, msgspec.json.encode(ClientFile(local_url(url), key)))
    except OSError as error:
        log.warning("client_file.not_written", error=str(error))


def local_url(url: str) -> str:
    """Return the address at which this machine reaches a server that listens on all addresses."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def _replace(file: Path, text: bytes) -> None:
    """Replace a file as a whole: a program that reads it meanwhile sees the old or the new one."""
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(text + b"\n")
        beside.replace(file)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
