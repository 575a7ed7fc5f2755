"""The secret key: given, read from a file, or made once and kept for its owner alone."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from postdate.node import keyring
from postdate.node.settings import ProcessSettings
from postdate.secret.secret import key_id
from postdate.words.error import StartError

ONE, TWO = secrets.token_bytes(32), secrets.token_bytes(32)


def test_a_key_is_made_once_and_kept_private(tmp_path: Path) -> None:
    settings = ProcessSettings(data_dir=tmp_path / "data")
    first, again = keyring.load(settings), keyring.load(settings)
    assert first.ids == again.ids
    assert len(first.ids) == 1
    file = settings.data_dir / keyring.FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(settings.data_dir.iterdir()) == [file]


def test_nodes_that_start_together_agree(tmp_path: Path) -> None:
    settings = ProcessSettings(data_dir=tmp_path)
    with ThreadPoolExecutor(16) as threads:
        rings = list(threads.map(keyring.load, [settings] * 64))
    assert len({ring.newest for ring in rings}) == 1


def test_the_first_of_several_given_keys_encrypts(tmp_path: Path) -> None:
    given = keyring.load(ProcessSettings(secret_key=f"{TWO.hex()}, {ONE.hex()}", data_dir=tmp_path))
    assert given.newest == key_id(TWO)
    assert given.ids == sorted([key_id(ONE), key_id(TWO)])
    file = tmp_path / "keys"
    file.write_text(f"{ONE.hex()}\n\n{TWO.hex()}\n")
    assert keyring.load(ProcessSettings(secret_key_file=str(file))).newest == key_id(ONE)
    assert not (tmp_path / keyring.FILE).exists()


def test_a_key_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for settings in (
        ProcessSettings(secret_key="nonsense"),
        ProcessSettings(secret_key=ONE.hex(), secret_key_file="x"),
        ProcessSettings(secret_key_file=str(tmp_path / "missing")),
        ProcessSettings(secret_key_file=str(empty)),
    ):
        with pytest.raises(StartError):
            keyring.load(settings)


def test_a_node_that_cannot_keep_a_key_has_none(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert keyring.load(ProcessSettings(data_dir=blocked / "data")).ids == []
