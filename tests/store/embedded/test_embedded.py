"""The parts of the embedded server that decide without a server."""

import os
from pathlib import Path

import pytest

from postdate.database.embedded import credentials, data_paths, process, runas, tuning

GB = 1024**3


@pytest.mark.parametrize(
    ("memory", "shared_buffers"),
    [(GB // 8, "32MB"), (2 * GB, "256MB"), (8 * GB, "1024MB"), (64 * GB, "1024MB")],
)
def test_shared_buffers_follow_the_memory(memory: int, shared_buffers: str) -> None:
    found = tuning.settings(memory, Path("/s"), lz4=False)
    assert found["shared_buffers"] == shared_buffers


@pytest.mark.parametrize(("lz4", "wanted"), [(True, "lz4"), (False, "off")])
def test_wal_is_compressed_where_it_is_cheap(*, lz4: bool, wanted: str) -> None:
    assert tuning.settings(GB, Path("/s"), lz4=lz4)["wal_compression"] == wanted


def test_rendered_settings_quote_their_values() -> None:
    assert tuning.render({"a": "it's", "b": "c\\d"}).endswith("a = 'it''s'\nb = 'c\\\\d'\n")


def test_login_is_kept_and_its_address_quotes_the_directory(tmp_path: Path) -> None:
    made = credentials.make(".", "/a b/c&d")
    credentials.write(tmp_path, made)
    assert credentials.read(tmp_path) == made
    assert made.login.app_dsn().endswith("@/postdate?host=/a%20b/c%26d&port=5432")


def test_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials.write_private(tmp_path / "f", b"old")
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            credentials.write_private(tmp_path / "f", b"new")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"f": b"old"}


def test_server_gets_none_of_our_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTDATE_ADMIN_KEY", "secret")
    monkeypatch.setenv("PGPASSWORD", "secret")
    assert "secret" not in process.environment().values()


def test_lock_file_that_says_nothing_names_no_process(tmp_path: Path) -> None:
    (tmp_path / "postmaster.pid").write_text("")
    assert process.lock_pid(tmp_path / "postmaster.pid") is None
    assert process.lock_pid(tmp_path / "missing") is None


def test_lock_file_of_another_program_names_no_postmaster(tmp_path: Path) -> None:
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n")
    assert process.postmaster(tmp_path) is None


@pytest.mark.parametrize("length", range(60, 110, 7))
def test_socket_path_is_never_too_long(length: int, tmp_path: Path) -> None:
    home = tmp_path / ("h" * length)
    home.mkdir()
    made = data_paths.socket_dir(home, runas.choose(os.getuid() or 65534))
    try:
        assert len(os.fsencode(made / ".s.PGSQL.5432")) < 107
    finally:
        made.rmdir()
