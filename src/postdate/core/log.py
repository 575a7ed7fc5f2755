"""Log lines: the name of an event and its fields, handed to Python's own logging."""

import logging
from typing import Any, Final

LOGGER: Final = "postdate.server"
"""The logger of all our lines: the node decides where they go and how they look."""

FIELDS: Final = "fields"
"""The attribute of a record that holds a line's fields; a library's record has none."""


class Log:
    """Writes lines with fields; `exc_info` adds the traceback of an error."""

    def __init__(self) -> None:
        self._logger = logging.getLogger(LOGGER)

    def debugs(self) -> bool:
        """Return whether `debug` writes: for lines that cost something to put together."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def debug(self, event: str, **fields: Any) -> None:
        """Write a line for debugging."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Write a line that an operator may want to see."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Write a line that may need attention."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Write a line that needs attention."""
        self._write(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Write an error with its traceback."""
        self._write(logging.ERROR, event, {"exc_info": True, **fields})

    def _write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            error = fields.pop("exc_info", None)
            self._logger.log(level, event, exc_info=error, extra={FIELDS: fields})
