"""Servers that a test may kill: each has its own, unlike the one that the other tests share."""

import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from postdate.database.embedded import Embedded
from support.embedded_server import QUICK


@pytest.fixture(scope="session")
def open_dir() -> Iterator[Path]:
    """A directory that any user can walk through, as pytest's own is not."""
    path = Path(tempfile.mkdtemp(prefix="pdt-fault-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def empty_dir(open_dir: Path) -> Iterator[Path]:
    """An empty directory for one test."""
    path = Path(tempfile.mkdtemp(dir=open_dir))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
async def made(open_dir: Path) -> Path:
    """A data directory whose server was made, started and stopped: copied, it saves the making."""
    server = Embedded(open_dir / "made", settings=QUICK)
    await server.start()
    await server.stop()
    return open_dir / "made"


@pytest.fixture
def data_dir(made: Path, empty_dir: Path) -> Path:
    """A copy of it."""
    subprocess.run(["cp", "-a", made, empty_dir / "data"], check=True)
    return empty_dir / "data"


@pytest.fixture
async def own_server(data_dir: Path) -> AsyncIterator[Embedded]:
    """A server on that copy, not yet started."""
    embedded = Embedded(data_dir, settings=QUICK)
    yield embedded
    await embedded.stop()
