"""Edit, pause and resume a lane."""

from typing import Final

from postdate.console.button import Button
from postdate.console.form_field import FieldSpec

BUTTONS: Final = (
    Button(
        "change_lane",
        means="Limits apply across all nodes; an empty field means no limit. The width can only "
        "grow.",
        confirm="Save",
        stored="show_lane",
        back="/lanes",
        done="Lane {lane} was changed.",
    ),
    Button(
        "pause_lane",
        means="No job of this lane starts until it is resumed. Running jobs continue, and new jobs "
        "are still accepted.",
        fields=(FieldSpec("note", required=True),),
        back="/lanes",
        done="Lane {lane} is paused: none of its jobs start until it is resumed.",
    ),
    Button(
        "resume_lane",
        means="Jobs that became due meanwhile start as fast as the lane allows.",
        back="/lanes",
        done="Lane {lane} is resumed.",
    ),
)
