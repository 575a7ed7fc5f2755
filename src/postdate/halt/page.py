"""The buttons of a halt: kill switch and freeze window."""

from functools import partial
from typing import Final

from postdate.console.button import Button

_Switch = partial(Button, back="/settings", then="/")
_GOES_ON: Final = "What became due meanwhile starts and settles, in order."

BUTTONS: Final = (
    _Switch(
        "kill_tenant",
        title="Kill switch",
        confirm="Stop everything",
        means="Nothing of this tenant starts or settles, and nothing new is accepted, until the "
        "switch is released. What runs is not interrupted.",
        danger=True,
        done="The kill switch is on: nothing of this tenant starts or settles.",
    ),
    _Switch(
        "release_tenant",
        title="Release the kill switch",
        means=_GOES_ON,
        done="The kill switch is off.",
    ),
    _Switch(
        "freeze_tenant",
        title="Freeze window",
        means="The tenant is halted during the window: `hold` starts nothing, `drain` accepts "
        "nothing.",
        danger=True,
        done="The freeze window is set.",
    ),
    _Switch(
        "thaw_tenant",
        title="End the freeze window",
        confirm="End it",
        means=_GOES_ON,
        done="The freeze window has ended.",
    ),
)
