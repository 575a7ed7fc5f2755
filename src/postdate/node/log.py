"""How log lines look: readable on a terminal, JSON otherwise, and never a secret."""

import logging
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import msgspec

from postdate.core import origin
from postdate.core.log import FIELDS, LOGGER
from postdate.node.line_writer import LineWriter

_SECRET_NAMES: Final = re.compile(
    r"authorization|password|secret|^key$|api_key|admin_key|token$|dsn|database_url|payload",
    re.IGNORECASE,
)
_SECRET_VALUES: Final = re.compile(
    r"pdk_[\w-]+|whsec_[\w+/=-]+|(?<=://)[^/@\s:]+:[^/@\s]+(?=@)|(?<=Bearer )\S+"
)
HIDDEN: Final = "[hidden]"
_FENCING: Final = "token"
"""A fencing token is a number and no secret; an access token is a text."""

_COLOURS: Final = {"debug": "2", "info": "32", "warning": "33", "error": "31"}

STANDARD_ERROR: Final = LineWriter(2)
"""Where the lines of this process go."""

LogLine: TypeAlias = dict[str, Any]
LogStep: TypeAlias = Callable[[LogLine], None]
"""Adds to a line, or changes what it says."""


def add_origin(line: LogLine) -> None:
    """Add the request and tenant of a line, if there is a request."""
    if (came := origin.current()) is not None:
        line.setdefault("request_id", came.request_id)
        if came.tenant is not None:
            line.setdefault("tenant", came.tenant)


def redact(line: LogLine) -> None:
    """Hide what is secret by its name or recognisable by its form."""
    for name, value in line.items():
        line[name] = _clean(name, value)


def _clean(name: str, value: Any) -> Any:
    if _SECRET_NAMES.search(name) and not (name == _FENCING and isinstance(value, int)):
        return HIDDEN
    if isinstance(value, str):
        return _SECRET_VALUES.sub(HIDDEN, value)
    if isinstance(value, dict):
        return {key: _clean(str(key), item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean("", item) for item in value]
    return value


def configure(level: str, form: str, *more: LogStep) -> None:
    """Send every line to standard error in one format; of libraries only warnings and errors."""
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    handler = LineHandler(STANDARD_ERROR, as_text if console else as_json, more)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(LOGGER).setLevel(level.upper())


class LineHandler(logging.Handler):
    """Writes our own lines and those of libraries, all in one form and without secrets."""

    def __init__(
        self, to: LineWriter, render: Callable[[LogLine], str], more: Sequence[LogStep] = ()
    ) -> None:
        super().__init__()
        self._to = to
        self._render = render
        self._steps = (add_origin, *more)
        to.notice = self._dropped_line

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, or count it: logging never fails the work that it is about."""
        try:
            line = line_of(record)
            for step in self._steps:
                step(line)
            redact(line)
            text = self._text(line, record.levelname.lower(), record.created)
        except Exception:  # noqa: BLE001 - a field may raise anything when it is written out
            self._to.drop()
        else:
            self._to.write(text)

    def flush(self) -> None:
        """Wait for the last lines, but not for long: the process ends."""
        self._to.flush()

    def _dropped_line(self, count: int) -> str:
        now = logging.makeLogRecord({}).created
        return self._text({"event": "log.dropped", "count": count}, "warning", now)

    def _text(self, line: LogLine, level: str, at: float) -> str:
        shown = datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
        return self._render(line | {"level": level, "timestamp": shown})


def line_of(record: logging.LogRecord) -> LogLine:
    """Return a record as a line: a library's error is named without its stack."""
    error = record.exc_info[1] if record.exc_info else None
    fields: LogLine | None = getattr(record, FIELDS, None)
    if fields is None:
        cause = None if error is None else f"{type(error).__name__}: {error}"
        said = record.getMessage()
        return {
            "event": "library.logged",
            "logger": record.name,
            "message": said,
            "error": cause,
        }
    line = {"event": record.msg, **fields}
    if record.exc_info and error is not None:
        # A traceback becomes text before redaction: its message may quote a secret.
        line["exception"] = logging.Formatter().formatException(record.exc_info)
    return line


def as_json(line: LogLine) -> str:
    """Write a line for programs."""
    return msgspec.json.encode(line, enc_hook=repr).decode()


def as_text(line: LogLine) -> str:
    """Write a line for people: the time, the level, the event, what belongs to it."""
    line = dict(line)
    level, trace = line.pop("level"), line.pop("exception", None)
    shown = f"\x1b[{_COLOURS.get(level, '31')}m{level:<8}\x1b[0m"
    head = f"{line.pop('timestamp')} {shown} {line.pop('event'):<30}"
    shown_fields = " ".join(f"{name}={value}" for name, value in line.items())
    return "\n".join(filter(None, [f"{head} {shown_fields}".rstrip(), trace]))
