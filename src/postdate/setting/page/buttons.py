"""Set or clear a run-time setting of the tenant."""

from typing import Final

from postdate.console.button import Button

BUTTONS: Final = (
    Button(
        "put_setting",
        means="Applies to this tenant, without a restart, within what the operator allows.",
        back="/settings",
        done="{name} is set to {value}. It takes effect on every node within five seconds.",
    ),
    Button(
        "clear_setting",
        means="Removes this tenant's value; the operator's value applies again.",
        back="/settings",
        done="{name} uses the operator's value again, on every node within five seconds.",
    ),
)
