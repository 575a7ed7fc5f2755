"""A cluster on disk: made once, checked and configured at every start."""

import secrets
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from postdate.database.embedded import credentials, data_paths, tuning
from postdate.database.embedded.binaries import Binaries
from postdate.database.embedded.credentials import SUPERUSER, Credentials
from postdate.database.embedded.process import environment
from postdate.database.embedded.runas import RunAs
from postdate.words.error import StartError

CONFIG: Final = "postdate.conf"
HBA: Final = "# Written by postdate at every start.\nlocal all all scram-sha-256\n"
_FRESH: Final = "cluster.new-"
_INITDB_SECONDS: Final = 120


def check(home: Path, known: Credentials | None, binaries: Binaries) -> bool:
    """Return whether the cluster exists; refuse one that these programs or passwords do not fit."""
    cluster = home / data_paths.CLUSTER
    if not cluster.exists():
        return False
    if known is None:
        raise StartError(
            f"{cluster} exists but {credentials.FILE} is missing beside it; restore that file "
            "from a backup, or set POSTDATE_DATA_DIR to a new directory."
        )
    try:
        version = (cluster / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        raise StartError(
            f"{cluster} is not a PostgreSQL data directory; move it away, "
            "or set POSTDATE_DATA_DIR to a new directory."
        ) from None
    if version != str(binaries.major):
        raise StartError(
            f"{cluster} was made by PostgreSQL {version} and this is PostgreSQL "
            f"{binaries.major}; dump it with version {version} and restore the dump "
            "into a new POSTDATE_DATA_DIR."
        )
    return True


def make(home: Path, known: Credentials, binaries: Binaries, user: RunAs) -> None:
    """Create the cluster under a temporary name, then rename it: a kill leaves no half cluster."""
    sweep(home)
    fresh = home / f"{_FRESH}{secrets.token_hex(4)}"
    password = home / f"{fresh.name}.password"
    try:
        credentials.write_private(password, known.superuser_password.encode() + b"\n")
        user.hand_over(password, 0o600)
        _initdb(fresh, password, binaries, user)
        with (fresh / "postgresql.conf").open("a") as file:
            file.write(f"\ninclude = '{CONFIG}'\n")
        password.unlink()
        fresh.rename(home / data_paths.CLUSTER)
    except BaseException:
        sweep(home)
        raise
    credentials.sync_directory(home)


def sweep(home: Path) -> None:
    """Remove what a killed start left unfinished."""
    for rest in home.glob(f"{_FRESH}*"):
        if rest.is_dir() and not rest.is_symlink():
            shutil.rmtree(rest, ignore_errors=True)
        else:
            rest.unlink(missing_ok=True)


def configure(
    cluster: Path, socket_dir: Path, binaries: Binaries, user: RunAs, extra: Mapping[str, str]
) -> None:
    """Write our settings and the rule that every login needs its password."""
    values = tuning.settings(tuning.memory(), socket_dir, lz4=binaries.lz4) | dict(extra)
    for name, text in ((CONFIG, tuning.render(values)), ("pg_hba.conf", HBA)):
        # What is written already needs no room on a full disk.
        if not _holds(cluster / name, text):
            credentials.write_private(cluster / name, text.encode())
        user.hand_over(cluster / name, 0o600)


def _holds(file: Path, text: str) -> bool:
    try:
        return file.read_bytes() == text.encode()
    except OSError:
        return False


def _initdb(fresh: Path, password: Path, binaries: Binaries, user: RunAs) -> None:
    command = [
        binaries.path("initdb"),
        f"--pgdata={fresh}",
        f"--username={SUPERUSER}",
        f"--pwfile={password}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--locale=C",
        "--data-checksums",
    ]
    done = subprocess.run(  # noqa: S603 - our own program
        command,
        cwd="/",
        check=False,
        capture_output=True,
        text=True,
        timeout=_INITDB_SECONDS,
        env=environment(),
        **user.popen(),
    )
    if done.returncode != 0:
        raise StartError(f"the database could not be made: {_reason(done.stderr, fresh.parent)}")


def _reason(stderr: str, home: Path) -> str:
    if "No space left on device" in stderr:
        return f"the disk of {home} is full; free some space and start again."
    lines = [line for line in stderr.splitlines() if "error" in line or "FATAL" in line]
    return (lines or stderr.splitlines() or ["initdb failed"])[-1]
