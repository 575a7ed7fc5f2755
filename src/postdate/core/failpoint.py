"""Named points around commits and effects at which a fault test ends the process; free when off.

Nothing in the program arms them: `tests/faults/kill.py` does, in a process of its own that it then
kills.
A point of a commit has two moments, `settle.before_commit` and `settle.after_commit`.
"""

from collections.abc import Callable

Hook = Callable[[str], None]
_hook: Hook | None = None


def arm(hook: Hook | None) -> None:
    """Call this with the name of each point that is reached from now on; None switches it off."""
    global _hook  # noqa: PLW0603 - one process, one hook
    _hook = hook


def reach(name: str, moment: str = "") -> None:
    """Reach a point, which does nothing unless a test has armed it; without a name, never."""
    if _hook is not None and name:
        _hook(f"{name}.{moment}" if moment else name)
