"""The buttons of a destination: create, edit, test, rotate, pause, disable, delete."""

from typing import Final

from postdate.console.button import REASON, Button
from postdate.console.form_field import FieldSpec
from postdate.console.operation import Answer
from postdate.console.page_request import PageRequest
from postdate.console.render import duration


def _created(_: PageRequest, made: Answer) -> str:
    secret = f" Its secret, shown only now: {made['secret']}" if made.get("secret") else ""
    return f"Destination {made['name']} was created.{secret}"


def _rotated(request: PageRequest, made: Answer) -> str:
    name = request.param("name")
    if made.get("secret"):
        return f"The new secret of {name}, shown only now: {made['secret']}"
    return f"This form was already submitted and rotated the secret of {name}."


def _tested(request: PageRequest, test: Answer) -> str:
    name = request.param("name")
    parts = [f"The test of {name} {test['outcome']} in {duration(test['duration_ms'])}"]
    parts += [f"HTTP {test['http_status']}"] if test.get("http_status") else []
    parts += [test[each] for each in ("code", "error", "response") if test.get(each)]
    return " · ".join(parts)


BUTTONS: Final = (
    Button(
        "create_destination",
        means="A named target of jobs and events, with limits, a signature and an off switch.",
        confirm="Create destination",
        done=_created,
        then="/destinations/{name}",
    ),
    Button(
        "change_destination",
        means="Limits apply to calls that start from now on; an empty field means no limit.",
        confirm="Save",
        stored="get_destination",
        done="Destination {name} was changed.",
    ),
    Button(
        "test_destination",
        means="Sends one small event of type destination.test; no job is created.",
        confirm="Send test",
        done=_tested,
    ),
    Button(
        "rotate_destination_secret",
        title="Rotate secret of destination",
        means="Until the overlap ends, calls carry two signatures: by the old and the new secret.",
        confirm="Rotate",
        done=_rotated,
    ),
    Button(
        "pause_destination",
        means="Its jobs and events wait until it is resumed; none fails and no attempt is spent. "
        "Calls that run end normally.",
        fields=(REASON,),
        done="{name} is paused: its jobs wait until it is resumed.",
    ),
    Button(
        "resume_destination",
        means="What waited is sent within half a minute, within the destination's limits.",
        fields=(FieldSpec("reason"),),
        done="{name} is resumed: what waited is sent.",
    ),
    Button(
        "disable_destination",
        means="Jobs for it fail until it is enabled again.",
        fields=(REASON,),
        danger=True,
        done="{name} is disabled: jobs for it fail until it is enabled.",
    ),
    Button(
        "enable_destination",
        means="Deliveries to it resume.",
        done="{name} is enabled: deliveries resume.",
    ),
    Button(
        "delete_destination",
        means="Jobs and subscriptions that name it fail from then on.",
        danger=True,
        then="/destinations",
        done="Destination {name} was deleted.",
    ),
)
