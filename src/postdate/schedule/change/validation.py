"""Validate a schedule: its rule, its template, and the rights of the key."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from postdate.account.store import account as account_store
from postdate.account.store.account import key_of
from postdate.calendar import store as calendar_store
from postdate.core.identity import Identity, Scope
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection
from postdate.database.connection.off_loop import computed
from postdate.job.accept.intake import JobIntake
from postdate.job.accept.request import JobRequest
from postdate.ledger.hold import admit
from postdate.payment.spec.payment import amount_limits
from postdate.recurrence.calendar import Calendar
from postdate.schedule.change.occurrence import of_template
from postdate.schedule.spec import rule as schedule_rules
from postdate.schedule.spec.preview import Preview, preview_unsaved
from postdate.schedule.spec.schedule import Definition, JobTemplate, PaymentTemplate
from postdate.schedule.spec.spec import InlineCalendar, PreviewSpec
from postdate.tenant.change.quota import check_schedules
from postdate.words.error import Code, Refusal, RefusedError, refuse


class ScheduleCheck:
    """The checks that run before anything is written."""

    def __init__(self, settings: Settings, jobs: JobIntake) -> None:
        self._settings = settings
        self._jobs = jobs

    async def check_quota(self, connection: Connection, actor: Identity) -> None:
        """Refuse a schedule beyond the tenant's quota."""
        await check_schedules(connection, self._settings, actor.tenant_id)

    async def run(
        self, connection: Connection, actor: Identity, definition: Definition, now: datetime
    ) -> Calendar | None:
        """Refuse an invalid schedule, naming the part; return the calendar of the rule."""
        await self.template(connection, actor, definition)
        calendar = await _calendar(connection, actor.tenant_id, definition.rule.calendar)
        min_seconds = self._settings.number("schedule.min_interval_seconds", actor.tenant_id)
        # Evaluating a rule can take a while; other requests continue meanwhile.
        await computed(
            actor.tenant_id, schedule_rules.check, definition, calendar, now, min_seconds
        )
        return calendar

    async def preview(
        self, connection: Connection, actor: Identity, spec: PreviewSpec, now: datetime
    ) -> Callable[[], Preview]:
        """Refuse what cannot be previewed; return a function that computes the preview."""
        definition = schedule_rules.completed(spec.definition(), now)
        if spec.template is not None:
            await self.template(connection, actor, definition)
        if isinstance(spec.calendar, InlineCalendar):
            days = spec.calendar
            calendar: Calendar | None = Calendar("", days.holidays, days.weekend)
        else:
            calendar = await _calendar(connection, actor.tenant_id, spec.calendar)
        min_seconds = self._settings.number("schedule.min_interval_seconds", actor.tenant_id)
        return partial(preview_unsaved, definition, calendar, now, spec.count, min_seconds)

    async def template(
        self, connection: Connection, actor: Identity, definition: Definition
    ) -> None:
        """Refuse a template whose job or payment would be refused for this key."""
        schedule_rules.check_template(definition.template, definition.policies)
        check_rights(actor, definition)
        if definition.template.payment is not None:
            await self._check_payment(connection, actor, definition.template.payment)
        if definition.template.job is not None:
            await self._check_job(actor, definition.template.job)

    async def _check_job(self, actor: Identity, template: JobTemplate) -> None:
        requests = [JobRequest(tenant_id=actor.tenant_id, spec=template.spec(), actor=actor.key_id)]
        [checked] = await self._jobs.strategy.validate(requests)
        if isinstance(checked, Refusal):
            raise RefusedError(of_template(checked, "job"))

    async def _check_payment(
        self, connection: Connection, actor: Identity, template: PaymentTemplate
    ) -> None:
        names = (template.from_account_id, template.to_account_id)
        payer, payee = (key_of(actor.tenant_id, name) for name in names)
        _, found = await account_store.gather(connection, (), [payer, payee])
        limits = amount_limits(self._settings, actor.tenant_id)
        refusal = admit(template.order(), found.get(payer), found.get(payee), limits)
        if refusal is not None:
            raise RefusedError(of_template(refusal, "payment"))


def check_rights(actor: Identity, definition: Definition) -> None:
    """Refuse a template that the key could not execute without a schedule."""
    payment = definition.template.payment
    needed = Scope.JOBS_WRITE if payment is None else Scope.PAYMENTS_WRITE
    if not actor.allows(needed):
        raise refuse(Code.FORBIDDEN, f"This template needs the scope {needed}.", "template")
    if payment is None:
        if actor.accounts is not None:
            detail = "A key limited to accounts creates no jobs."
            raise refuse(Code.FORBIDDEN, detail, "template.job")
        return
    if actor.accounts is not None and payment.from_account_id not in actor.accounts:
        detail = f"The key may not pay from {payment.from_account_id}."
        raise refuse(Code.FORBIDDEN, detail, "template.payment.from_account_id")
    if actor.max_amount is not None and payment.amount > actor.max_amount:
        detail = f"The key may pay at most {actor.max_amount}."
        raise refuse(Code.FORBIDDEN, detail, "template.payment.amount")


async def _calendar(connection: Connection, tenant_id: int, name: str | None) -> Calendar | None:
    if name is None:
        return None
    found = await calendar_store.current(connection, [(tenant_id, name)])
    if (tenant_id, name) not in found:
        raise refuse(Code.INVALID_FIELD, f"There is no calendar {name[:64]}.", "calendar")
    return found[tenant_id, name].calendar
