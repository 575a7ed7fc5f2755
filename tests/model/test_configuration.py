"""A program finds its server: by its arguments, the environment, or the server's own file."""

from pathlib import Path

import pytest

from postdate.client import Client, ConfigurationError, PostdateError
from postdate.client.configuration import find_server
from postdate.node.client_file import write_client_file
from postdate.node.settings import ProcessSettings

URL = "http://127.0.0.1:18181"
KEY = "pdk_of_the_file"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a server with a key of its own has written, in the default place."""
    monkeypatch.chdir(tmp_path)
    for name in ("POSTDATE_URL", "POSTDATE_API_KEY", "POSTDATE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    data = tmp_path / ".postdate"
    data.mkdir()
    (data / "admin.key").write_text(f"{KEY}\n")
    write_client_file(URL, ProcessSettings(data_dir=data))
    return data / "client.json"


def test_address_and_key_come_from_the_file_of_the_server(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600
    found = find_server()
    assert (found.url, found.api_key) == (URL, KEY)
    assert str(found) == (
        f"{URL} (from .postdate/client.json), with the key from .postdate/client.json"
    )
    assert KEY not in repr(found)


@pytest.mark.usefixtures("file")
def test_what_is_given_comes_before_the_environment_and_that_before_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POSTDATE_API_KEY", "of_the_environment")
    assert find_server().api_key == "of_the_environment"
    assert (find_server(api_key="given").api_key, find_server().url) == ("given", URL)
    monkeypatch.setenv("POSTDATE_URL", "http://other:1")
    assert find_server().url == "http://other:1"
    assert find_server("https://given/api/v1/").url == "https://given"


@pytest.mark.parametrize("other", ["http://other:18181", "http://127.0.0.1:8080", "https://a"])
@pytest.mark.usefixtures("file")
def test_the_key_of_one_server_is_not_sent_to_another(
    monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"has none for {other}"):
        find_server(other)
    monkeypatch.setenv("POSTDATE_URL", other)
    with pytest.raises(ConfigurationError, match="POSTDATE_API_KEY"):
        find_server()
    assert find_server("http://localhost:18181").api_key == KEY


def test_a_file_that_others_could_have_written_is_refused(file: Path) -> None:
    file.chmod(0o666)
    with pytest.raises(ConfigurationError, match="others may have written"):
        find_server()
    assert find_server(URL, "k").api_key == "k"


@pytest.mark.parametrize("url", ["ftp://a", "http://", "http://a:port", "http://[::1", "a:1"])
@pytest.mark.usefixtures("file")
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is no address"):
        find_server(url)


@pytest.mark.parametrize("text", ["{", '{"url": "http://a:port"}', "[]"])
def test_a_file_that_is_none_is_named(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"client\.json is not what a server writes"):
        find_server()


def test_a_key_of_the_environment_is_not_put_on_a_disk(tmp_path: Path) -> None:
    settings = ProcessSettings(data_dir=tmp_path, admin_key="of_the_environment")
    write_client_file("http://0.0.0.0:8080", settings)
    assert (
        tmp_path / "client.json"
    ).read_text() == '{"url":"http://127.0.0.1:8080","api_key":""}\n'
    assert [each.name for each in tmp_path.iterdir()] == ["client.json"]
    write_client_file(URL, ProcessSettings(data_dir=tmp_path / "absent"))
    assert not (tmp_path / "absent").exists()


def test_an_error_names_the_address_and_the_origin_of_both(file: Path) -> None:
    write_client_file("http://127.0.0.1:1", ProcessSettings(data_dir=file.parent))
    with Client(retries=0) as client, pytest.raises(PostdateError, match="does not answer") as told:
        client.keys.whoami()
    assert told.value.__notes__ == [f"asked: {client.asynchronous.server}"]
