"""Bulk actions: what a dry run has shown is done to each item in the background.

The confirmation stores the items; nodes work them off whether or not a page is open.
"""

from typing import Any, Final

from starlette.responses import Response

from postdate.console.dry_run import DryRun
from postdate.console.operation import BodyFields
from postdate.console.page_request import PageRequest, redirect, scalar
from postdate.words.error import Code, refuse

PACE: Final = "pace"
"""The field of a confirmation that says how many items are changed a second."""

_ITEMS: Final = frozenset({"filter", "job_ids"})
"""Members of a body that say to which items: the dry run has fixed them."""


async def begin(request: PageRequest, operation: Any, body: BodyFields, kept: DryRun) -> Response:
    """Store what was confirmed, and show its progress."""
    # A second click on the same form finds no dry run.
    request.session.drop_plan(request.form.get("once", ""))
    bulk_action_id = await request.services.bulk_action.change.begin(
        request.actor,
        operation,
        {name: value for name, value in body.items() if name not in _ITEMS},
        {item: str(kept.seen.get(item, "")) for item in kept.items},
        per_second=_pace(request),
    )
    return redirect(f"/bulk-actions/{bulk_action_id}")


def _pace(request: PageRequest) -> float | None:
    text = request.form.get(PACE, "").strip()
    found = scalar(text) if text else None
    if isinstance(found, bool | str) or (found is not None and found <= 0):
        raise refuse(Code.INVALID_FIELD, "Give a number above 0, such as 10.", PACE)
    return None if found is None else float(found)
