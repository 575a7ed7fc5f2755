"""What a test sees of the log: each line as a mapping, with its level."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from postdate.core.log import FIELDS, LOGGER

Line = dict[str, Any]


class _Keeping(logging.Handler):
    def __init__(self, step: Callable[[Line], None] | None) -> None:
        super().__init__()
        self.step = step
        self.lines: list[Line] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = {"event": record.msg, **getattr(record, FIELDS, {})}
        line["log_level"] = record.levelname.lower()
        if record.exc_info:
            line["exc_info"] = record.exc_info[1]
        if self.step:
            self.step(line)
        self.lines.append(line)


@contextmanager
def capture_logs(step: Callable[[Line], None] | None = None) -> Iterator[list[Line]]:
    """Keep every line that is written meanwhile, of all levels; nobody else gets it."""
    logger, handler = logging.getLogger(LOGGER), _Keeping(step)
    level = logger.level
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    try:
        yield handler.lines
    finally:
        logger.setLevel(level)
        logger.propagate = True
        logger.removeHandler(handler)
