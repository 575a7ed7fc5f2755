"""The table of limits: each figure is read from the constant or setting that holds it."""

from typing import Final

from postdate.calendar import store as calendar_store
from postdate.core.money import MAX_BALANCE
from postdate.core.setting.table import SETTINGS
from postdate.event import api as event_api
from postdate.event.spec import event as event_spec
from postdate.http import page, request_parser, request_reader, route_table
from postdate.http.limit import RequestLimits
from postdate.job.change import bulk, dead_letter
from postdate.job.spec import job as job_spec
from postdate.payment.accept import intake as payment_intake
from postdate.recurrence import budget, cron, rrule, rrule_text, rule
from postdate.schedule.spec import spec as schedule_spec
from postdate.words.error import Code

_LIMITS: Final = RequestLimits()
KIB: Final = 1024


def table() -> str:
    """Write the table of what is fixed, then the settings that limit something."""
    fixed = ["| what | limit | otherwise |", "|---|---|---|"]
    fixed += [f"| {what} | {limit} | {otherwise} |" for what, limit, otherwise in _fixed()]
    settable = ["| what | default | setting |", "|---|---|---|"]
    settable += [
        f"| {SETTINGS[name].doc} | {SETTINGS[name].default} | `{name}` |" for name in _SETTINGS
    ]
    parts = ["## Fixed", "\n".join(fixed), "## Settable at run time", "\n".join(settable)]
    return "\n\n".join(parts)


def _fixed() -> list[tuple[str, str, str]]:
    return [
        ("body of a request", f"{_LIMITS.body_bytes // KIB} KiB", _code(Code.BODY_TOO_LARGE)),
        ("nesting of JSON", f"{_LIMITS.json_depth} levels", _code(Code.BODY_TOO_DEEP)),
        ("receiving a body", f"{_LIMITS.receive_seconds:g} s", _code(Code.RECEIVE_TIMEOUT)),
        ("answering a request", f"{_LIMITS.handler_seconds:g} s", _code(Code.OVERLOADED)),
        ("headers", f"{request_parser.HEADERS}", _code(Code.HEAD_TOO_LARGE)),
        (
            "headers in all",
            f"{request_parser.HEAD_BYTES // KIB} KiB",
            _code(Code.HEAD_TOO_LARGE),
        ),
        (
            "query parameters",
            f"{request_reader.MAX_QUERY_PARAMETERS}",
            _code(Code.INVALID_FIELD),
        ),
        ("segment of a path", f"{route_table.SEGMENT_CHARS} characters", _code(Code.NOT_FOUND)),
        ("page of a list", f"{page.DEFAULT_PAGE}, at most {page.MAX_PAGE}", "422"),
        ("payload of a job", f"{job_spec.PAYLOAD_BYTES // KIB} KiB", _code(Code.PAYLOAD_TOO_LARGE)),
        ("metadata of a job", f"{job_spec.METADATA_BYTES} bytes", _code(Code.INVALID_FIELD)),
        ("jobs in a batch", f"{job_spec.MAX_BATCH:,}", _code(Code.BATCH_TOO_LARGE)),
        ("payments in a batch", f"{payment_intake.MAX_BATCH:,}", _code(Code.BATCH_TOO_LARGE)),
        ("jobs that a bulk call changes", f"{bulk.MAX_BULK:,}", "`more` is true"),
        ("dead letters in a redrive", f"{dead_letter.MAX_REDRIVE:,}", "`more` is true"),
        ("spread of a job", f"{job_spec.MAX_SPREAD_SECONDS:,} s", _code(Code.INVALID_FIELD)),
        ("balance of an account", f"{MAX_BALANCE:,}", "`balance_above_limit`"),
        ("waiting for events", f"{event_api.MAX_WAIT_SECONDS} s", "422"),
        ("patterns of a subscription", f"{event_spec.MAX_PATTERNS}", "422"),
        ("occurrences in a preview", f"{schedule_spec.MAX_PREVIEW}", "422"),
        ("holidays of a calendar", f"{schedule_spec.MAX_HOLIDAYS:,}", "422"),
        ("versions of a calendar", f"{calendar_store.MAX_VERSIONS}", "the oldest is dropped"),
        ("characters of a cron expression", f"{cron.MAX_CHARACTERS}", "422"),
        ("characters of an RRULE", f"{rrule_text.MAX_CHARACTERS:,}", "422"),
        ("`COUNT` of an RRULE", f"{rrule.MAX_COUNT:,}", "422"),
        ("excluded dates of a rule", f"{rule.MAX_EXCLUDED_DATES:,}", "422"),
        ("steps to the next occurrence", f"{budget.MAX_STEPS:,}", "422: the rule never fires"),
    ]


def _code(code: Code) -> str:
    return f"[`{code}`](errors.md#{code})"


_SETTINGS: Final = tuple(
    name
    for name, setting in SETTINGS.items()
    if name.startswith(("quota.", "rate.")) or ".max_" in name or "horizon" in name
)
