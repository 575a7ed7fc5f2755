"""Apply and undo a change set."""

from typing import Final

from postdate.console.button import Button
from postdate.console.operation import Answer
from postdate.console.page_request import PageRequest


def _applied(_: PageRequest, answer: Answer) -> str:
    many = len(answer["steps"])
    return f"{many} {'change was' if many == 1 else 'changes were'} made. Undo reverts them."


def _undone(_: PageRequest, answer: Answer) -> str:
    if any(step.get("left") for step in answer["steps"]):
        return "The changes were undone, except for what was left as it is: see below."
    return "The changes were undone."


BUTTONS: Final = (
    Button(
        "apply_change_set",
        means="The changes are made one after the other. Jobs and payments that have begun or "
        "ended meanwhile are left alone. If it is interrupted, apply it again to continue.",
        danger=True,
        done=_applied,
    ),
    Button(
        "undo_change_set",
        means="The changes are taken back, the last first. Refused once a job or payment that was "
        "moved has been executed; a cancelled one is created again.",
        confirm="Undo the changes",
        danger=True,
        done=_undone,
    ),
)
