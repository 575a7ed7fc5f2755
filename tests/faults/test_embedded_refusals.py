"""What the embedded server refuses: one sentence, and nothing is changed."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from postdate.database.embedded import Embedded, cluster, process
from postdate.words.error import StartError
from support.embedded_server import orphaned, serves


async def test_second_instance_is_refused_and_harms_nothing(
    own_server: Embedded, data_dir: Path
) -> None:
    login = await own_server.start()
    second = Embedded(data_dir)
    with pytest.raises(StartError, match=rf"another postdate \(process {os.getpid()}\)"):
        await second.start()
    await second.stop()
    assert await serves(login)


def foreign_server(data: Path) -> None:
    shutil.rmtree(data)
    data.mkdir()
    (data / "PG_VERSION").write_text("18\n")


def foreign_files(data: Path) -> None:
    shutil.rmtree(data)
    data.mkdir()
    (data / "thesis.txt").write_text("precious")


def other_version(data: Path) -> None:
    (data / "cluster/PG_VERSION").write_text("17\n")


def no_credentials(data: Path) -> None:
    (data / "credentials.json").unlink()


def damaged_credentials(data: Path) -> None:
    (data / "credentials.json").write_text("{")


def no_cluster_inside(data: Path) -> None:
    shutil.rmtree(data / "cluster")
    (data / "cluster").mkdir()


def wrong_password(data: Path) -> None:
    file = data / "credentials.json"
    known = json.loads(file.read_text())
    known["superuser_password"] = "other"
    file.write_text(json.dumps(known))


def bad_setting(data: Path) -> None:
    with (data / "cluster/postgresql.conf").open("a") as file:
        file.write("shared_buffers = 'lots'\n")


def contents(data: Path) -> dict[str, bytes]:
    """Read what a refusal must not touch; a server that tried to start has written its log."""
    files = [path for path in data.rglob("*") if path.is_file()]
    own = {"lock", "postgres.log", "postdate.conf", "credentials.json"}
    return {str(p): p.read_bytes() for p in files if p.name not in own and "pg_wal" not in p.parts}


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (foreign_server, "is the data directory of another PostgreSQL server"),
        (foreign_files, "is not empty and was not made by postdate"),
        (other_version, "was made by PostgreSQL 17 and this is PostgreSQL 18"),
        (no_credentials, "credentials.json is missing"),
        (damaged_credentials, "credentials.json is damaged"),
        (no_cluster_inside, "is not a PostgreSQL data directory"),
        (bad_setting, "contains errors"),
    ],
)
async def test_directory_that_does_not_fit_is_refused_and_left_alone(
    spoil: Callable[[Path], None], sentence: str, own_server: Embedded, data_dir: Path
) -> None:
    spoil(data_dir)
    before = contents(data_dir)
    with pytest.raises(StartError, match=sentence):
        await own_server.start()
    assert contents(data_dir) == before
    assert process.members(data_dir / "cluster") == []


async def test_passwords_that_do_not_fit_are_refused(own_server: Embedded, data_dir: Path) -> None:
    good = (data_dir / "credentials.json").read_text()
    wrong_password(data_dir)
    with pytest.raises(StartError, match="do not fit"):
        await own_server.start()
    assert process.members(data_dir / "cluster") == []
    (data_dir / "credentials.json").write_text(good)
    assert await serves(await own_server.start())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a directory away")
async def test_directory_of_another_user_is_refused(
    own_server: Embedded, data_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AssertionError, match="it ended"):
        await orphaned(data_dir, "65534")
    assert "and postdate runs as 65534; run it as its owner" in capfd.readouterr().err
    assert await serves(await own_server.start())


async def test_full_disk_is_named(own_server: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cluster, "configure", full)
    with pytest.raises(StartError, match=r"the disk of .* is full; free some space"):
        await own_server.start()
    monkeypatch.undo()
    assert await serves(await own_server.start())
