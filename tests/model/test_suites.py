"""The adapters of suites that others wrote: what agrees, what has a reason, what has none."""

from pathlib import Path

import pytest

from postdate_lab.suites import calendar_suite, result, server_suite
from postdate_lab.suites.result import MissingSuiteError, SuiteResult, page

CASES = """# one
RRULE:FREQ=DAILY;COUNT=2
DTSTART:20260101T090000
INSTANCES:20260101T090000,20260102T090000

# a wrong instance
RRULE:FREQ=DAILY;COUNT=3
DTSTART:20260101T090000
INSTANCES:20260101T090000,20260103T090000,20260105T090000

# a start that the rule does not name
RRULE:FREQ=MONTHLY;BYMONTHDAY=2;COUNT=1
DTSTART:20260101T090000
INSTANCES:20260101T090000
"""
HTTP = r"""# A page

## Good

<!-- meta={"type": "request"} -->
```http
GET / HTTP/1.1


```

```log
off=0 message begin
```

## Lenient

<!-- meta={"type": "request-lenient-headers"} -->
```http
GET / HTTP/1.1


```

```log
off=0 error code=2
```

## Bad

<!-- meta={"type": "request"} -->
```http
\r\nGET / HTTP/1.1
Content-Length: \x41


```

```log
off=9 error code=11 reason="x"
```
"""


def test_a_case_agrees_or_has_a_reason_or_is_named() -> None:
    found = SuiteResult(name="a", source="b")
    found.add("one", "", {})
    found.add("two", "is late", {"time is relative": "late"})
    found.add("three", "is lost", {"time is relative": "late"})
    assert (found.cases, found.agreed) == (3, 1)
    assert found.explained == {"time is relative": ["two"]}
    assert found.unexplained == ["three: is lost"]
    said = page([found, SuiteResult(name="c", source="", missing="no directory")], "head")
    assert "| a | b | 3 | 1 | 1 | 1 |" in said
    assert "- **a, not explained**: three: is lost" in said
    assert "- c: no directory" in said


def test_what_cannot_be_had_is_missing_and_never_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(result.DIRECTORY, str(tmp_path))
    with pytest.raises(MissingSuiteError):
        calendar_suite.run()
    monkeypatch.delenv(result.DIRECTORY)
    with pytest.raises(MissingSuiteError):
        result.directory("libical")


def test_a_wrong_instance_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "libical" / calendar_suite.FILE
    path.parent.mkdir(parents=True)
    path.write_text(CASES)
    monkeypatch.setenv(result.DIRECTORY, str(tmp_path))
    found = calendar_suite.run()
    assert (found.cases, found.agreed, len(found.unexplained)) == (3, 1, 1)
    assert "FREQ=DAILY;COUNT=3" in found.unexplained[0]
    assert sum(map(len, found.explained.values())) == 1


def test_strict_requests_are_read_as_bytes_with_the_host_that_a_parser_does_not_ask_for() -> None:
    good, bad = server_suite._cases(HTTP)
    assert good.sent == b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    assert good.taken
    assert bad.sent == b"\r\nGET / HTTP/1.1\r\nHost: a\r\nContent-Length: A\r\n\r\n"
    assert not bad.taken


@pytest.mark.parametrize(
    ("name", "status", "right"),
    [("y_a", 201, True), ("y_a", 422, False), ("n_a", 400, True), ("n_a", 201, False),
     ("n_a", 500, False), ("i_a", 201, True), ("i_a", 422, True), ("i_a", 500, False)],
)  # fmt: skip
def test_a_json_text_is_taken_or_refused_as_its_name_says(
    name: str, status: int, *, right: bool
) -> None:
    assert (server_suite._judged(name, status, "said") == "") is right
