"""`postdate foresight`: what comes due, when that is too much, which payments will fail."""

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import cyclopts
from cyclopts import Parameter

from postdate.cli.output import show
from postdate.cli.remote import Lane, ScheduleId, call, without_none

foresight_app = cyclopts.App(name="foresight", help="Forecast load and money.")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """Which window, and against what."""

    from_at: Annotated[str | None, Parameter(help="An instant; the next minute.")] = None
    until_at: Annotated[str | None, Parameter(help="An instant; a day later.")] = None
    by: Annotated[
        Literal["total", "lane", "destination"], Parameter(help="How to break the figures down.")
    ] = "total"
    lane: Annotated[Lane | None, Parameter(help="Only this lane; with --by lane.")] = None
    slot_seconds: Annotated[int | None, Parameter(help="Length of a slot.")] = None
    jobs_per_second: Annotated[float | None, Parameter(help="The capacity for jobs.")] = None
    payments_per_second: Annotated[float | None, Parameter(help="The capacity for payments.")] = (
        None
    )
    jitter_seconds: Annotated[int | None, Parameter(help="Also show the effect of this.")] = None
    schedule_id: Annotated[ScheduleId | None, Parameter(help="Only for this schedule.")] = None


@foresight_app.command(name="load")
def foresight_load(options: LoadOptions | None = None) -> None:
    """Forecast what comes due, schedules included, and when it will be late."""
    asked = without_none(**asdict(options or LoadOptions()))
    show(call("GET", "/foresight/load", query=asked))


@foresight_app.command(name="money")
def foresight_money(
    *,
    account_id: Annotated[str | None, Parameter(help="Project this account.")] = None,
    until_at: Annotated[str | None, Parameter(help="An instant; 30 days from now.")] = None,
) -> None:
    """Forecast which payments will fail and why, and how an account's balance will develop."""
    show(
        call(
            "GET", "/foresight/money", query=without_none(account_id=account_id, until_at=until_at)
        )
    )
