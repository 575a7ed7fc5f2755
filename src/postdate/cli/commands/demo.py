"""`postdate demo`: fill a tenant with realistic demo data."""

import time
from typing import Annotated, Final

from cyclopts import Parameter

from postdate.cli.demo_life import DemoLife
from postdate.cli.output import UsageError, show
from postdate.cli.remote import connected
from postdate.client import Client

PAUSE_SECONDS: Final = 1.0
AT_ONCE: Final = 5
"""How many payments and jobs come up in a second while life goes on."""


def demo(
    *,
    again: Annotated[
        bool, Parameter(negative=(), help="Fill a tenant that already has accounts or work.")
    ] = False,
    minutes: Annotated[float, Parameter(help="Keep creating activity for this long.")] = 0,
) -> None:
    """Fill a tenant with demo accounts, payments, schedules, jobs and failures."""
    with connected(retries=2) as client:
        if not again and (found := _life(client)):
            tenant = client.keys.whoami().tenant
            raise UsageError(
                f"the tenant {tenant} already has {found}: use another tenant, or pass --again"
            )
        life = DemoLife(client)
        made = life.fill()
        ends = time.monotonic() + 60 * minutes
        while time.monotonic() < ends:
            made["payments"] += life.pay(AT_ONCE)
            made["jobs"] += life.register(AT_ONCE)
            made["attempts"] += life.work()
            time.sleep(PAUSE_SECONDS)
    show(made)


def _life(client: Client) -> str | None:
    """Return the kinds of data a tenant already has."""
    if client.accounts.list_page(limit=1).accounts:
        return "accounts"
    if client.jobs.list_page(limit=1).jobs:
        return "jobs"
    if client.schedules.list_page(limit=1).schedules:
        return "schedules"
    return None
