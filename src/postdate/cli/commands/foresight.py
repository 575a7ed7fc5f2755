"""`postdate foresight`: what becomes due, when that is too much, which payments will fail."""

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import cyclopts
from cyclopts import Parameter

from postdate.cli.output import show
from postdate.cli.remote import Lane, ScheduleId, call, without_none

foresight_app = cyclopts.App(name="foresight", help="See what will be: load and money ahead.")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """Which window, and against what."""

    from_at: Annotated[str | None, Parameter(help="An instant; the next minute.")] = None
    until_at: Annotated[str | None, Parameter(help="An instant; a day later.")] = None
    by: Annotated[
        Literal["total", "lane", "destination"], Parameter(help="What to tell apart.")
    ] = "total"
    lane: Annotated[Lane | None, Parameter(help="Only this lane; with --by lane.")] = None
    slot_seconds: Annotated[int | None, Parameter(help="How long a slot is.")] = None
    jobs_per_second: Annotated[float | None, Parameter(help="The capacity to count with.")] = None
    payments_per_second: Annotated[float | None, Parameter(help="The same of payments.")] = None
    jitter_seconds: Annotated[int | None, Parameter(help="Tell what this would change.")] = None
    schedule_id: Annotated[ScheduleId | None, Parameter(help="Whose jitter; else of all.")] = None


@foresight_app.command(name="load")
def foresight_load(options: LoadOptions | None = None) -> None:
    """Show what becomes due, schedules included, and when it will be late."""
    asked = without_none(**asdict(options or LoadOptions()))
    show(call("GET", "/foresight/load", query=asked))


@foresight_app.command(name="money")
def foresight_money(
    *,
    account_id: Annotated[str | None, Parameter(help="Project this account.")] = None,
    until_at: Annotated[str | None, Parameter(help="An instant; 30 days from now.")] = None,
) -> None:
    """Show which payments will fail and why, and how the balance of an account will go."""
    show(
        call(
            "GET", "/foresight/money", query=without_none(account_id=account_id, until_at=until_at)
        )
    )
