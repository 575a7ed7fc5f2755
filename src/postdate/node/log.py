"""Logging: readable on a terminal, JSON otherwise, and never a secret."""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import structlog

from postdate.model import origin

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


def add_origin(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Say on whose behalf a line was written, where there is a request."""
    if (came := origin.current()) is not None:
        event.setdefault("request_id", came.request_id)
        if came.tenant is not None:
            event.setdefault("tenant", came.tenant)
    return event


def redact(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide what is secret by its name or recognisable by its form."""
    for name, value in event.items():
        event[name] = _clean(name, value)
    return event


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


def configure(level: str, form: str, *more: structlog.typing.Processor) -> None:
    """Send every line to standard error, in one form."""
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    renderer = structlog.dev.ConsoleRenderer() if console else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            add_origin,
            *more,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # A traceback becomes text before redaction: its message may quote a secret.
            structlog.processors.format_exc_info,
            redact,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_Forward()], force=True)


class _Forward(logging.Handler):
    """Let what libraries log take the same way: one form, no secret."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a library's line as one of ours, with the error but without its stack."""
        error = record.exc_info[1] if record.exc_info else None
        structlog.get_logger().log(
            record.levelno,
            "library.logged",
            logger=record.name,
            message=record.getMessage(),
            error=None if error is None else f"{type(error).__name__}: {error}",
        )
