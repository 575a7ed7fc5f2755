from pathlib import Path

import pytest

from postdate.node.settings import FIELDS, load
from postdate.words.error import StartError


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "postdate.toml"
    file.write_text('port = 1\nhost = "0.0.0.0"\ndrain_seconds = 3\n')
    environ = {"POSTDATE_CONFIG": str(file), "POSTDATE_PORT": "2", "POSTDATE_DRAIN_SECONDS": "4"}
    settings = load({"port": 5, "host": None}, environ)
    assert (settings.port, settings.host, settings.drain_seconds) == (5, "0.0.0.0", 4)


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"POSTDATE_PROT": "1"}, "POSTDATE_PROT is not a setting"),
        ({"POSTDATE_PORT": "http"}, "POSTDATE_PORT must be a whole number"),
        ({"POSTDATE_PORT": "70000"}, "POSTDATE_PORT lies between"),
        ({"POSTDATE_LOG_LEVEL": "loud"}, "POSTDATE_LOG_LEVEL is one of"),
        ({"POSTDATE_ALLOW_PRIVATE_TARGETS": "10.0.0.300/8"}, "POSTDATE_ALLOW_PRIVATE_TARGETS"),
        ({"POSTDATE_KAFKA_BROKERS": "kafka:9092,k:99999"}, "POSTDATE_KAFKA_BROKERS"),
        ({"POSTDATE_CONFIG": "/nonexistent.toml"}, "cannot be read"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(environ: dict[str, str], says: str) -> None:
    with pytest.raises(StartError, match=says):
        load({}, environ)


def test_an_unknown_name_in_the_file_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "postdate.toml"
    file.write_text("prot = 1\n")
    with pytest.raises(StartError, match="prot in"):
        load({}, {"POSTDATE_CONFIG": str(file)})


def test_names_of_other_programs_and_of_the_tests_are_left_alone() -> None:
    assert load({}, {"PATH": "/bin", "POSTDATE_TEST_CITUS": "x"}).port == FIELDS["port"].default
