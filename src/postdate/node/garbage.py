"""Keep the garbage collector out of the way of a busy process."""

import gc
from typing import Final

GARBAGE_AFTER: Final = (20_000, 20, 50)
"""How many new objects start a collection. Each walks what it finds: with Python's own 700, a sixth
of the time of a busy server went into it."""


def postpone() -> None:
    """Collect nothing while modules are loaded and objects are wired: nearly all of it stays."""
    gc.disable()


def settle() -> None:
    """Set apart what lives as long as the process, once everything is wired, and collect the rest.

    What was garbage already is set apart too: finding it would take longer than it is worth.
    """
    gc.freeze()
    gc.set_threshold(*GARBAGE_AFTER)
    gc.enable()
