"""Run `postdate` so that SIGUSR2 holds its event loop: other threads of the process go on."""

import os
import signal
import time
from types import FrameType
from typing import Final

HOLD_SECONDS: Final = "CHAOS_HOLD_SECONDS"
"""How long each signal holds the loop."""


def _hold(_number: int, _frame: FrameType | None) -> None:
    # Python runs this in the main thread, which is the loop's.
    time.sleep(float(os.environ.get(HOLD_SECONDS, "1")))


if __name__ == "__main__":
    signal.signal(signal.SIGUSR2, _hold)
    from postdate.cli.main import main

    main()
