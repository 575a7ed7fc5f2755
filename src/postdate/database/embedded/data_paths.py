"""The data directory, the server's home, the socket, and the lock on them."""

import fcntl
import hashlib
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from postdate.database.embedded.credentials import FILE, PORT, Credentials
from postdate.database.embedded.runas import RunAs
from postdate.words.error import StartError

CLUSTER: Final = "cluster"
LOCK: Final = "lock"
LOG: Final = "postgres.log"
SOCKET: Final = "socket"
SOCKET_PATH_MAX: Final = 106
"""Bytes; the kernel's limit is 107 and the terminating zero."""

AWAY: Final = Path("/var/lib/postdate")
"""Where root puts a cluster whose data directory is closed to the server's user."""

_MARKS: Final = frozenset({CLUSTER, LOCK, FILE})
_IGNORED: Final = frozenset({"lost+found"})
_ADVICE: Final = "set POSTDATE_DATA_DIR to another directory"


def prepare(data_dir: Path) -> None:
    """Make the data directory, or refuse one that is not ours, before anything is changed."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = data_dir.stat().st_uid
    if os.geteuid() not in {0, owner}:
        raise StartError(
            f"{data_dir} belongs to user {owner} and postdate runs as {os.geteuid()}; "
            f"run it as its owner, or {_ADVICE}."
        )
    names = {entry.name for entry in data_dir.iterdir()} - _IGNORED
    if "PG_VERSION" in names:
        raise StartError(
            f"{data_dir} is the data directory of another PostgreSQL server; {_ADVICE}."
        )
    if names and not names & _MARKS:
        raise StartError(
            f"{data_dir} is not empty and was not made by postdate; empty it, or {_ADVICE}."
        )
    data_dir.chmod(0o700)


def lock(directory: Path) -> int:
    """Lock the directory until the descriptor is closed; the lock ends with a killed process."""
    path = directory / LOCK
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 20).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise StartError(
            f"another postdate (process {holder}) is using {directory}; stop it, or {_ADVICE}."
        ) from None
    with suppress(OSError):  # The number is for people; a full disk may have no room for it.
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def home_of(data_dir: Path, credentials: Credentials) -> Path:
    """Return where the cluster of these credentials lies."""
    return (data_dir / credentials.home).resolve()


def choose_home(data_dir: Path, user: RunAs) -> Path:
    """Choose the home of a new cluster: here, or elsewhere if the user cannot get here."""
    if user.can_access("-x", data_dir.parent):
        return data_dir
    AWAY.mkdir(mode=0o755, parents=True, exist_ok=True)
    if not user.can_access("-x", AWAY):
        raise StartError(
            f"user {user.name}, who runs PostgreSQL for root, can reach neither {data_dir} "
            f"nor {AWAY}; {_ADVICE} that it can reach."
        )
    # A random name, recorded in the credentials: a data directory that is deleted and made
    # again gets a new cluster, and never the old one of another user.
    return AWAY / secrets.token_hex(8)


def open_home(home: Path, user: RunAs) -> None:
    """Hand the home over to the user that runs the server, closed to everyone else."""
    home.mkdir(mode=0o700, exist_ok=True)
    user.hand_over(home, 0o700)
    if not user.can_access("-x", home):
        raise StartError(
            f"user {user.name}, who runs PostgreSQL, cannot reach {home}; open its parent "
            f"directories (chmod o+x), or {_ADVICE}."
        )


def socket_dir(home: Path, user: RunAs) -> Path:
    """Make the private directory of the socket, elsewhere if the path would be too long."""
    near = home / SOCKET
    path = near if _fits(near) else _short(home, user)
    if not _fits(path):
        raise StartError(
            f"the path {path} is too long for a socket; set TMPDIR to a shorter directory."
        )
    path.mkdir(mode=0o700, exist_ok=True)
    _verify(path, user)
    user.hand_over(path, 0o700)
    return path


def _fits(directory: Path) -> bool:
    return len(os.fsencode(directory / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_MAX


def _short(home: Path, user: RunAs) -> Path:
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"postdate-{user.uid}-{digest}"


def _verify(path: Path, user: RunAs) -> None:
    # Anyone may have made this name in the shared temporary directory before us.
    found = path.lstat()
    ours = found.st_uid in {os.geteuid(), user.uid}
    if not stat.S_ISDIR(found.st_mode) or not ours:
        raise StartError(
            f"{path} belongs to another user; remove it, or set TMPDIR to another directory."
        )
