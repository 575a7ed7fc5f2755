"""Anything, later, exactly once: a durable scheduler that can also move money."""

from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from postdate.task import Postdate

# The server is a distribution of its own with rooms in the same package; where both are installed
# from source trees, this finds them in both.
__path__ = extend_path(__path__, __name__)
__all__ = ["Postdate"]


def __getattr__(name: str) -> Any:
    """Load the application when it is asked for: the server starts without it."""
    if name != "Postdate":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from postdate.task.app import Postdate

    return Postdate
