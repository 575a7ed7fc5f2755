"""Find what the server did for too long in one go on the loop that it shares with a test."""

from postdate.node.event_loop import LoopHold, LoopWatch

WATCH = LoopWatch()
"""Runs on the loop of all tests."""

MAX_CPU_SECONDS = 0.2
"""Longer than in production: the garbage of a whole test run is collected on this loop too."""


def server_holds(holds: list[LoopHold]) -> list[LoopHold]:
    """Keep the holds of the server: in the stack of a test's own work there is the test."""
    return [
        hold
        for hold in holds
        if hold.cpu_seconds > MAX_CPU_SECONDS and _is_of_server(_above_loop(hold.stack))
    ]


def _above_loop(stack: list[str]) -> list[str]:
    starts = [number for number, frame in enumerate(stack) if "/asyncio/runners.py:" in frame]
    return stack[starts[-1] + 1 :] if starts else stack


def _is_of_server(stack: list[str]) -> bool:
    return any("/src/postdate/" in frame for frame in stack) and not any(
        "/tests/" in frame for frame in stack
    )


def described(holds: list[LoopHold]) -> str:
    """Say how long the loop was held, and where."""
    return "\n".join(
        f"the loop was held for {hold.cpu_seconds:.2f} s of CPU:\n  " + "\n  ".join(hold.stack)
        for hold in holds
    )
