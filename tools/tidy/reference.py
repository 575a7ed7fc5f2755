"""The tables of the reference pages, written from what declares each thing."""

import sys
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

from prometheus_client import CollectorRegistry

from postdate.api.health import ReadinessMeter
from postdate.cli.main import app
from postdate.core.setting.setting import Settings
from postdate.core.setting.table import SETTINGS, TEXT_CHARACTERS
from postdate.event.spec.data import EVENT_FIELDS
from postdate.event.spec.event import VISIBLE
from postdate.event.spec.types import EVENT_TYPES
from postdate.foresight.view.money_watch import will_fail_gauge
from postdate.http.meter import HttpMeter
from postdate.job.spec.failure_code import FAILURE_CODES
from postdate.ledger.settle import MEANINGS, FailureReason
from postdate.monitor.view.overdue import OverdueMeter
from postdate.monitor.view.vitals import Vitals
from postdate.node.event_loop import LoopWatch
from postdate.node.metric import NodeMeter, tallies
from postdate.node.settings import FIELDS, PREFIX
from postdate.payment.accept.meter import PaymentMeter
from postdate.prover.meter import ProofMeter
from postdate.publisher.meter import PublisherMeter
from postdate.scheduler.meter import ScheduleMeter
from postdate.settlement.meter import SettlementMeter
from postdate.words.error import EXPLANATIONS
from postdate.worker.meter import JobMeter

_METERS: Final = (
    HttpMeter,
    ReadinessMeter,
    PaymentMeter,
    PublisherMeter,
    ScheduleMeter,
    SettlementMeter,
    ProofMeter,
    OverdueMeter,
    will_fail_gauge,
)
_SUFFIX: Final = {"counter": "_total", "info": "_info"}


def commands() -> str:
    """Explain every command, as its help does."""
    with mock.patch.object(sys, "argv", ["postdate"]):  # a usage line names the program that runs
        text = app.generate_docs(output_format="markdown", recursive=True, heading_level=2)
    return text.partition("## Table of Contents")[2].replace("\n## ", "\n# ").strip()


def errors() -> str:
    """Explain every error code, in the order of their table."""
    return "\n\n".join(
        f"## {code}\n\n`{said.status}` {said.title}. {said.advice}"
        for code, said in EXPLANATIONS.items()
    )


def event_types() -> str:
    """Write the table of the event types, those of one noun together."""
    lines = ["| type | what happened | `data` | seen with |", "|---|---|---|---|"]
    for name, each in EVENT_TYPES.items():
        noun = f"{name.partition('.')[0]}.*"
        scopes = [f"`{scope}`" for scope, seen in VISIBLE.items() if noun in seen or "*" in seen]
        data = ", ".join(f"`{field}`" for field in each.data.split()) or "nothing"
        lines.append(f"| `{name}` | {each.happened} | {data} | {', '.join(scopes)} |")
    return "\n".join(lines)


def event_fields() -> str:
    """Write the table of the fields that the data of events has."""
    lines = ["| field | value | says |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {' or '.join(each.kinds)} | {each.meaning} |"
        for name, each in sorted(EVENT_FIELDS.items())
    ]
    return "\n".join(lines)


def job_failures() -> str:
    """Write the table of the codes of failed attempts."""
    lines = ["| code | means | counted as |", "|---|---|---|"]
    lines += [
        f"| `{code}` | {said.meaning} | `{said.counted_as}` |"
        for code, said in sorted(FAILURE_CODES.items())
    ]
    return "\n".join(lines)


def payment_failures() -> str:
    """Write the table of the codes of failed payments."""
    lines = ["| code | means |", "|---|---|"]
    lines += [f"| `{reason}` | {MEANINGS[reason]} |" for reason in FailureReason]
    return "\n".join(lines)


def process_settings() -> str:
    """Write the table of the settings that are read when a process starts."""
    lines = ["| environment | default | meaning |", "|---|---|---|"]
    for name, setting in FIELDS.items():
        default = f"`{setting.default}`" if str(setting.default) else "empty"
        lines.append(f"| `{PREFIX}{name.upper()}` | {default} | {setting.metadata['doc']} |")
    return "\n".join(lines)


def runtime_settings() -> str:
    """Write the table of the settings that are changed without a restart."""
    lines = ["| name | default | bounds | a tenant may | meaning |", "|---|---|---|---|---|"]
    for name, setting in SETTINGS.items():
        bounds = ", ".join(setting.choices) or f"{setting.minimum} to {setting.maximum}"
        if setting.minimum is None and not setting.choices:
            bounds = "an instant" if setting.instant else f"{TEXT_CHARACTERS} characters"
        may = setting.tenant_may.value if setting.per_tenant else "nothing: one for all"
        lines.append(f"| `{name}` | `{setting.default}` | {bounds} | {may} | {setting.doc} |")
    return "\n".join(lines)


def metrics() -> str:
    """Write the table of the metrics."""
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    labels = _labels()
    for name, (kind, doc) in metric_names().items():
        own = ", ".join(f"`{label}`" for label in labels[name])
        lines.append(f"| `{name}` | {kind} | {own} | {doc} |")
    return "\n".join(lines)


def _labels() -> dict[str, tuple[str, ...]]:
    """Return the labels of every metric. The library keeps them in private attributes."""
    registry = _full_registry()
    declared = {
        name: getattr(collector, "_labelnames", ())
        for collector, names in registry._collector_to_names.items()
        for name in names
    }
    return {
        family.name + _SUFFIX.get(family.type, ""): tuple(
            getattr(family, "_labelnames", declared.get(family.name, ()))
        )
        for family in registry.collect()
    }


def metric_names() -> dict[str, tuple[str, str]]:
    """Return every metric as Prometheus knows it, with its type and what it says."""
    found = {
        family.name + _SUFFIX.get(family.type, ""): (family.type, family.documentation)
        for family in _full_registry().collect()
    }
    return dict(sorted(found.items()))


def _full_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    for meter in _METERS:
        meter(registry)
    JobMeter(registry, tallies())
    NodeMeter(registry, _idle_node(), "")
    Vitals(registry, None, None)
    return registry


def _idle_node() -> Any:
    pool = SimpleNamespace(get_size=int, get_idle_size=int, get_max_size=int)
    return SimpleNamespace(
        name="",
        roles=[],
        loops=[],
        breakers=[],
        database=SimpleNamespace(writer=pool, reader=pool),
        runtime=Settings(),
        loop_watch=LoopWatch(),
    )
