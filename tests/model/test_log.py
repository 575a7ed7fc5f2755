import io
import logging
from collections.abc import Iterator

import msgspec
import pytest

from postdate.core.log import LOGGER, Log
from postdate.node.line_writer import LineWriter
from postdate.node.log import HIDDEN, LineHandler, as_json, as_text, redact


@pytest.mark.parametrize(
    ("name", "value", "canary"),
    [
        ("authorization", "Bearer abc", "abc"),
        ("api_key", "abc", "abc"),
        ("dsn", "postgresql://u:abc@h/d", "abc"),
        ("detail", "connect postgresql://user:hunter2@host/db failed", "hunter2"),
        ("detail", "header Authorization: Bearer tokentoken", "tokentoken"),
        ("error", "key pdk_c2VjcmV0c2VjcmV0 was refused", "c2VjcmV0c2VjcmV0"),
        ("error", "secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GKYqrTwjUPD8"),
        ("exception", "Traceback … DSN postgres://a:hunter2@h", "hunter2"),
        ("headers", {"Authorization": "Bearer abcabc"}, "abcabc"),
        ("items", ["pdk_c2VjcmV0"], "c2VjcmV0"),
    ],
)
def test_a_secret_is_hidden_by_its_name_or_its_form(name: str, value: object, canary: str) -> None:
    line = {"event": "x", name: value}
    redact(line)
    assert canary not in repr(line)
    assert HIDDEN in repr(line)


def test_what_is_no_secret_stays() -> None:
    line = {"event": "job.claimed", "token": 7, "job_id": "j", "lane": "mail", "attempt": 2}
    seen = dict(line)
    redact(seen)
    assert seen == line


class KeptLines(LineWriter):
    """Keeps the lines instead of writing them."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.text = io.StringIO()

    def write(self, line: str) -> None:
        self.text.write(line + "\n")


@pytest.fixture
def lines() -> KeptLines:
    return KeptLines()


@pytest.fixture
def written(lines: KeptLines) -> Iterator[io.StringIO]:
    """What is written as JSON to the log meanwhile."""
    handler = LineHandler(lines, as_json, [])
    for name in (LOGGER, "library"):
        logging.getLogger(name).addHandler(handler)
    yield lines.text
    for name in (LOGGER, "library"):
        logging.getLogger(name).removeHandler(handler)


def test_a_line_has_its_event_its_fields_and_a_level(written: io.StringIO) -> None:
    Log().warning("job.refused", job_id="j", dsn="postgresql://u:abc@h/d")
    line = msgspec.json.decode(written.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "job.refused", "job_id": "j", "dsn": HIDDEN, "level": "warning"}


def test_a_traceback_is_text_without_secrets(written: io.StringIO) -> None:
    Log().error("step.failed", exc_info=ValueError("no pdk_c2VjcmV0"))
    line = msgspec.json.decode(written.getvalue())
    assert line["level"] == "error"
    assert "ValueError: no [hidden]" in line["exception"]


def test_what_a_library_logs_takes_the_same_way(written: io.StringIO) -> None:
    logging.getLogger("library").warning("refused %s", "pdk_c2VjcmV0")
    line = msgspec.json.decode(written.getvalue())
    assert (line["event"], line["message"]) == ("library.logged", f"refused {HIDDEN}")


def test_a_person_reads_event_fields_and_traceback() -> None:
    line = {"event": "step.failed", "loop": "seal", "exception": "Traceback …"}
    shown = as_text({**line, "level": "error", "timestamp": "T"}).splitlines()
    assert (shown[0][:2], "step.failed" in shown[0], shown[1]) == ("T ", True, "Traceback …")
    assert shown[0].endswith("loop=seal")


class Unprintable:
    """A field that cannot be written out."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


def test_a_line_that_cannot_be_put_together_is_dropped_and_counted(
    written: io.StringIO, lines: KeptLines
) -> None:
    Log().warning("job.odd", field=Unprintable())
    assert (written.getvalue(), lines.dropped) == ("", 1)
