"""Alerts and dashboard: every name exists, every alert has its test, its page and its row."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from postdate.api.guide import ADDRESS, project_path
from postdate.cli.main import app
from tidy.reference import metric_names

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy/prometheus"
RUNBOOKS = ROOT / "docs/operate/runbooks"
SECTIONS = ("**It means**", "**Look here**", "**Do this**", "**Do not**")

GROUPS = yaml.load((PROMETHEUS / "alerts.yml").read_text(), yaml.CSafeLoader)["groups"]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = [rule for rule in RULES if "alert" in rule]
TESTS = yaml.load((PROMETHEUS / "alerts_test.yml").read_text(), yaml.CSafeLoader)["tests"]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
PANELS = msgspec.json.decode((ROOT / "deploy/grafana/postdate.json").read_bytes())["panels"]

_NAME = re.compile(r"\b(?:postdate|process)[_:][a-z0-9_:]+")
ROLES = ("postdate_owner", "postdate_writer", "postdate_reader", "postdate_client", "postdate_app")
_PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}


def unknown(expression: str) -> set[str]:
    """Give the names in an expression that neither a server nor a rule makes."""
    served = metric_names()
    known = {*served, *RECORDED, *_PROCESS}
    for name, (kind, _) in served.items():
        if kind == "histogram":
            known |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"}
    return set(_NAME.findall(expression)) - known


def key(rule: dict[str, Any]) -> str:
    return f"{rule['alert']} {rule['labels']['severity']}"


def test_an_unknown_name_is_found() -> None:
    assert unknown('rate(postdate_jobs_done_total{kind="x"}[5m])') == {"postdate_jobs_done_total"}


PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "SECURITY.md"]
_SPOKEN = re.compile(r"`(postdate_[a-z0-9_]+)[`{]")
_NO_METRIC = {
    *("postdate_migrate", "postdate_outbox", "postdate_once", "postdate_server", "postdate_url"),
    "postdate_worker",
}
"""A login, tables of a client's own database, a fixture of pytest, a label of
Prometheus, and a command of Django."""


def test_a_page_names_metrics_that_exist() -> None:
    assert len(PAGES) > 50
    wrong = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in PAGES
        for name in _SPOKEN.findall(page.read_text())
        if unknown(name) and name not in _NO_METRIC and not name.startswith(ROLES)
    ]
    assert wrong == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_asks_for_metrics_that_exist(rule: dict[str, Any]) -> None:
    assert _NAME.search(rule["expr"])
    assert not unknown(rule["expr"])


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_asks_for_metrics_that_exist(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        assert _NAME.search(target["expr"])
        assert not unknown(target["expr"]), target["expr"]


def runbook(alert: dict[str, Any]) -> Path:
    """Find the page behind an alert's link, which begins with the server's own address."""
    server, _, name = alert["annotations"]["runbook_url"].partition(f"{ADDRESS}/")
    assert server == "{{ $externalLabels.postdate_url }}"
    return ROOT / f"{project_path(name)}.md"


@pytest.mark.parametrize("alert", ALERTS, ids=key)
def test_an_alert_is_whole(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert alert["annotations"]["summary"]
    page = runbook(alert)
    assert page.exists()
    named = {test["name"] for test in TESTS}
    assert {f"{key(alert)} fires", f"{key(alert)} is quiet"} <= named
    table = (ROOT / "docs/operate/alerts.md").read_text()
    row = next(line for line in table.splitlines() if f"`{alert['alert']}`" in line)
    assert f"runbooks/{page.name}" in row


def test_no_two_alerts_share_name_and_severity() -> None:
    assert len({key(alert) for alert in ALERTS}) == len(ALERTS)


@pytest.mark.parametrize(
    "page", sorted({*RUNBOOKS.glob("*.md")} - {RUNBOOKS / "index.md"}), ids=lambda page: page.stem
)
def test_a_runbook_is_linked_and_says_what_to_do(page: Path) -> None:
    assert page in {runbook(alert) for alert in ALERTS}
    text = page.read_text()
    places = [text.find(section) for section in SECTIONS]
    assert -1 not in places
    assert places == sorted(places)


def commands(text: str) -> list[list[str]]:
    """Give the commands that a page tells to run, as far as they are words."""
    found = re.findall(r"(?:^|`)postdate ((?:[a-z-]+ ?)+)", text, re.MULTILINE)
    return [line.split() for line in found]


def exists(words: list[str]) -> bool:
    """Say whether the first words are a command of ours."""
    _, apps, _ = app.parse_commands(words)
    found = apps[-1]
    return found is not app and found.default_command is not None


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs/operate").rglob("*.md")), ids=lambda p: p.stem
)
def test_the_commands_of_a_page_exist(page: Path) -> None:
    for words in commands(page.read_text()):
        assert exists(words), " ".join(words)


def test_a_command_that_does_not_exist_is_found() -> None:
    assert commands("`postdate explode now`\n") == [["explode", "now"]]
    assert not exists(["explode", "now"])
    assert exists(["settlement", "status"])


def test_promtool_accepts_the_rules_and_their_tests() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    for arguments in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        ran = subprocess.run(
            [promtool, *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
