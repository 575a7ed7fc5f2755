"""Who may log in to the embedded server, kept as JSON in the data directory (0600)."""

import os
import secrets
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from postdate.words.error import StartError

FILE: Final = "credentials.json"
PORT: Final = 5432
"""Only a part of the socket's name: the server listens on no network address."""

SUPERUSER: Final = "postgres"
_PASSWORD_BYTES: Final = 24


class Login(msgspec.Struct, frozen=True):
    """How the owner and the application reach the database."""

    host: str
    owner_password: str
    app_password: str
    port: int = PORT
    database: str = "postdate"
    owner: str = "postdate_owner"
    app: str = "postdate_app"

    def __repr__(self) -> str:
        """Name the place and no password, so that a log line may hold it."""
        return f"Login(host={self.host!r}, database={self.database!r})"

    def owner_dsn(self) -> str:
        """Return the address for migrations."""
        return dsn(self.owner, self.owner_password, self.database, self.host)

    def app_dsn(self) -> str:
        """Return the address for everything else."""
        return dsn(self.app, self.app_password, self.database, self.host)


class Credentials(msgspec.Struct, frozen=True):
    """What the file holds: the logins, the superuser's password, and where the cluster lies."""

    login: Login
    superuser_password: str
    home: str = "."

    def __repr__(self) -> str:
        """Name the place and no password, so that a log line may hold it."""
        return f"Credentials(login={self.login!r}, home={self.home!r})"

    def superuser_dsn(self, database: str = "postgres") -> str:
        """Return the superuser's address: for the supervisor and for making test databases."""
        return dsn(SUPERUSER, self.superuser_password, database, self.login.host)


def dsn(user: str, password: str, database: str, host: str) -> str:
    """Write an address as asyncpg and libpq read it, with a socket directory as the host."""
    return f"postgresql://{user}:{password}@/{database}?host={quote(host)}&port={PORT}"


def make(home: str, host: str) -> Credentials:
    """Generate the passwords of a new cluster."""
    login = Login(host=host, owner_password=_password(), app_password=_password())
    return Credentials(login=login, superuser_password=_password(), home=home)


def read(data_dir: Path) -> Credentials | None:
    """Read the file; None when there is none."""
    try:
        return msgspec.json.decode((data_dir / FILE).read_bytes(), type=Credentials)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise StartError(
            f"{data_dir / FILE} is damaged; restore it from a backup, "
            "or set POSTDATE_DATA_DIR to a new directory."
        ) from error


def write(data_dir: Path, credentials: Credentials) -> None:
    """Replace the file atomically and durably, readable by its owner only."""
    content = msgspec.json.format(msgspec.json.encode(credentials)) + b"\n"
    write_private(data_dir / FILE, content)


def write_private(path: Path, content: bytes) -> None:
    """Replace a file atomically: a crash leaves the old or the new one, always with mode 0600."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    # O_EXCL: the directory may belong to the server's unprivileged user, who must not be able
    # to lead a process of root to another file.
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make a rename in this directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _password() -> str:
    return secrets.token_urlsafe(_PASSWORD_BYTES)
