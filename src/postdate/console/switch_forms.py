"""Forms that switch, rotate or remove something: halts, secrets, what is no longer wanted."""

from typing import Final

from postdate.console.form import Answer, EndpointForm, FormField, instant_field
from postdate.console.page_request import PageRequest

_NOTE: Final = FormField(
    name="note", label="Reason", required=True, hint="the next person on call reads this"
)

PURGE: Final = EndpointForm(
    path="/jobs/{job_id:uuid}/purge",
    operation="purge_dead_letter",
    method_name="dead_letters.purge",
    title="Purge failed job",
    button="Purge",
    means="The failed job and its attempts are removed permanently; its events stay.",
    fields=(),
    danger=True,
    done=("Job {job_id} was purged.", "/dead-letters"),
    back="/jobs/{job_id}",
)


def _rotated(request: PageRequest, made: Answer) -> tuple[str, str]:
    name = request.param("name")
    said = (
        f"The new secret of {name}, shown only now: {made['secret']}"
        if made["secret"]
        else f"This form was already submitted and rotated the secret of {name}."
    )
    return said, f"/destinations/{name}"


DESTINATION_ROTATE: Final = EndpointForm(
    path="/destinations/{name}/rotate",
    operation="rotate_destination_secret",
    method_name="destinations.rotate_secret",
    title="Rotate secret of destination",
    button="Rotate",
    means="Until the overlap ends, calls carry two signatures: by the old and by the new secret.",
    fields=(
        FormField(
            name="overlap_seconds",
            label="Overlap in seconds",
            kind="whole",
            hint="for how long both sign; a day if empty",
        ),
    ),
    done=_rotated,
    back="/destinations/{name}",
)
DESTINATION_DELETE: Final = EndpointForm(
    path="/destinations/{name}/delete",
    operation="delete_destination",
    method_name="destinations.delete",
    title="Delete destination",
    button="Delete",
    means="Jobs and subscriptions that name it fail from then on.",
    fields=(),
    danger=True,
    done=("Destination {name} was deleted.", "/destinations"),
    back="/destinations/{name}",
)
KILL: Final = EndpointForm(
    path="/halts/kill",
    operation="kill_tenant",
    method_name="halts.kill",
    title="Kill switch",
    button="Stop everything",
    means="Nothing of this tenant starts or settles, and nothing new is accepted, until the switch "
    "is released. What runs is not interrupted.",
    fields=(_NOTE,),
    danger=True,
    done=("The kill switch is on: nothing of this tenant starts or settles.", "/"),
    back="/settings",
)
RELEASE: Final = EndpointForm(
    path="/halts/release",
    operation="release_tenant",
    method_name="halts.release",
    title="Release the kill switch",
    button="Release",
    means="What became due meanwhile starts and settles, in order.",
    fields=(),
    done=("The kill switch is off.", "/"),
    back="/settings",
)
FREEZE: Final = EndpointForm(
    path="/halts/freeze",
    operation="freeze_tenant",
    method_name="halts.freeze",
    title="Freeze window",
    button="Freeze",
    means="The tenant is halted during the window: `hold` starts nothing, `drain` accepts nothing.",
    fields=(
        instant_field("until", "Until", required=True),
        instant_field("from", "From", "in UTC; now if empty"),
        FormField(name="mode", label="Mode", kind="choice", choices=("hold", "drain")),
        _NOTE,
    ),
    danger=True,
    done=("The freeze window is set.", "/"),
    back="/settings",
)
THAW: Final = EndpointForm(
    path="/halts/thaw",
    operation="thaw_tenant",
    method_name="halts.thaw",
    title="End the freeze window",
    button="End it",
    means="What became due meanwhile starts and settles, in order.",
    fields=(),
    done=("The freeze window has ended.", "/"),
    back="/settings",
)
SWITCHES: Final = (PURGE, DESTINATION_ROTATE, DESTINATION_DELETE, KILL, RELEASE, FREEZE, THAW)
