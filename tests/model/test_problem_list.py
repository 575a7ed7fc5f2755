"""The list of what is wrong: every kind once, ranked, with cause, since when and what helps."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from postdate.destination.spec.trouble import Trouble
from postdate.destination.view.destination_call import FailingTarget
from postdate.foresight.view.due_chart import DueChart, Forecast
from postdate.halt.spec import HaltView
from postdate.job.store.job_list import WaitingCount
from postdate.monitor.store.overview import (
    DisabledDestination,
    FailureGroup,
    LaggingSubscription,
    PausedDestination,
)
from postdate.monitor.store.vital import AuditRun
from postdate.monitor.view.activity import activity_view
from postdate.monitor.view.cluster_problem import ClusterFacts, find_cluster_problems
from postdate.monitor.view.counted import MarkedCount
from postdate.monitor.view.node import NodeView
from postdate.monitor.view.overview import LaneBacklog, Overview, SlowOverview
from postdate.monitor.view.overview_problem import OverviewProblem, Severity
from postdate.monitor.view.problem import ProblemFacts, find_problems
from postdate.monitor.view.secret_key import find_missing
from postdate.runtime.node import NodeKeys
from postdate.secret.secret import KeyNeed

NOW = datetime(2026, 11, 17, 3, 0, tzinfo=UTC)
CHART = DueChart(slot_seconds=60, jobs=[], payments=[])
NODES = {"worker": 1, "settlement": 1}
RUNBOOKS = Path(__file__).parents[2] / "docs" / "operate" / "runbooks"


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def slow(**values: object) -> SlowOverview:
    plain = SlowOverview(
        unix_ms=0,
        failures=[],
        forecast=Forecast(begin=NOW, hour=CHART, day=CHART),
        nodes=NODES,
        missing_keys=[],
        failing=[],
        checks=[],
    )
    return msgspec.structs.replace(plain, **values)


def overview(**values: object) -> Overview:
    plain = Overview(
        lanes=[],
        payments_overdue=MarkedCount(0),
        payments_oldest=None,
        payments_parked=MarkedCount(0),
        approvals=MarkedCount(0),
        approvals_overdue=0,
        approvals_oldest=None,
        broken_off=[],
        disabled=[],
        paused=[],
        waiting={},
        subscriptions=[],
        schedules_set_aside=MarkedCount(0),
        activity=activity_view([], 0),
        slow=slow(),
    )
    return msgspec.structs.replace(plain, **values)


def failures(*, jobs: int, payments: int) -> list[FailureGroup]:
    return [
        FailureGroup(True, "http_500", "shop", jobs, 0, NOW, False),
        FailureGroup(False, "insufficient_funds", "worker", payments, 0, NOW, False),
    ]


def lane(**values: object) -> LaneBacklog:
    plain = LaneBacklog(
        name="mail",
        kind="push",
        overdue=3,
        oldest=ago(90),
        running=2,
        unknown=0,
        capped=False,
        paused_at=None,
        paused_note=None,
        paused_by=None,
        max_running=None,
        rate_per_second=None,
    )
    return msgspec.structs.replace(plain, **values)


HALT = HaltView(
    kind="kill", mode="hold", from_at=ago(60), until_at=None, note="fraud", set_by="eve",
    set_at=ago(60),
)  # fmt: skip


def facts(found: Overview, **values: object) -> ProblemFacts:
    plain = ProblemFacts(overview=found, overdue=(), troubles=(), halts=(), now=NOW)
    return msgspec.structs.replace(plain, **values)


def only(found: Overview, **values: object) -> OverviewProblem:
    problems = find_problems(facts(found, **values))
    assert len(problems) == 1, problems
    return problems[0]


def test_where_nothing_is_wrong_the_list_is_empty() -> None:
    assert find_problems(facts(overview(lanes=[lane(overdue=0, oldest=None)]))) == []


def test_money_comes_first_then_what_stands_still_and_notes_last() -> None:
    found = find_problems(
        facts(
            overview(
                lanes=[lane(), lane(name="quiet", paused_at=ago(9), paused_by="ann")],
                schedules_set_aside=MarkedCount(1),
                approvals_overdue=2,
                approvals_oldest=ago(30),
                payments_parked=MarkedCount(1),
                disabled=[DisabledDestination("shop", ago(600), "it answered 410 Gone")],
                slow=slow(failures=failures(payments=4, jobs=2)),
            ),
        )
    )
    assert [each.severity for each in found] == sorted(each.severity for each in found)
    assert found[0].text == "2 payments past due and not yet approved."
    assert [each.text for each in found if each.severity is Severity.NOTE] == [
        "Lane quiet is paused."
    ]
    assert all(each.help for each in found)


def test_a_paused_destination_is_a_note_with_who_why_and_what_waits() -> None:
    waits = {"shop": WaitingCount("shop", 2, 39, capped=True)}
    paused = [PausedDestination("shop", ago(600), "their release", "ann")]
    found = only(overview(paused=paused, waiting=waits))
    assert (found.severity, found.text) == (Severity.NOTE, "Destination shop is paused.")
    assert (found.actor, found.cause) == ("ann", "Reason: their release.")
    assert (found.holds_up, found.link) == ("≥ 41 jobs wait.", "/destinations/shop/resume")


def node(name: str, *roles: str, silent: bool = False, lacks: Sequence[str] = ()) -> NodeView:
    return NodeView(
        node_id=UUID(int=7), name=name, roles=list(roles), version="1", started_at=ago(900),
        seen_at=ago(300 if silent else 1), silent=silent, lacks=list(lacks),
    )  # fmt: skip


ALL_ROLES = node("one", "api", "worker", "settlement", "publisher")


def cluster(**values: object) -> list[OverviewProblem]:
    plain = ClusterFacts(audits=(), overdue=(), nodes=[ALL_ROLES], now=NOW)
    return find_cluster_problems(msgspec.structs.replace(plain, **values))


def test_the_operator_is_told_of_books_roles_and_silent_nodes_money_first() -> None:
    assert cluster() == []
    found = cluster(
        audits=[AuditRun("verify", 5.0, 2), AuditRun("prove", 5.0, 0)],
        overdue=["due jobs: 3 of them were not touched for 90 s"],
        nodes=[node("one", "worker"), node("gone", "settlement", "publisher", silent=True)],
    )
    assert [(each.severity, each.text) for each in found] == [
        (Severity.MONEY, "postdate events verify reported 2 findings."),
        (Severity.MONEY, "No node with the role settlement is alive."),
        (Severity.STOPPED, "Overdue: due jobs: 3 of them were not touched for 90 s."),
        (Severity.STOPPED, "No node with the role publisher is alive."),
        (Severity.FAILING, "Node gone has stopped reporting."),
    ]
    assert found[-1].since == ago(300)
    assert all((RUNBOOKS / f"{each.runbook}.md").is_file() for each in found)


def test_many_silent_nodes_are_counted() -> None:
    found = cluster(nodes=[ALL_ROLES, *(node(f"n{n}", silent=True) for n in range(12))])
    assert found[-1].text == "2 more nodes silent."
    assert len(found) == 11


def test_a_problem_links_to_what_helps() -> None:
    def link(**values: object) -> str:
        return only(overview(**values)).link

    shop = DisabledDestination("my shop", ago(600), None)
    hooks = LaggingSubscription(UUID(int=1), {"name": "h"}, 0, None, None, ago(9), None, 5)
    assert link(lanes=[lane(paused_at=ago(9))]) == "/lanes/mail/resume"
    assert link(disabled=[shop]) == "/destinations/my%20shop"
    assert link(subscriptions=[hooks]) == f"/subscriptions/{UUID(int=1)}/resume"


def test_a_lane_paused_on_purpose_is_a_note_that_names_who_and_why() -> None:
    found = only(overview(lanes=[lane(paused_at=ago(60), paused_by="ann", paused_note="deploy")]))
    assert found.severity is Severity.NOTE
    assert (found.actor, found.cause) == ("ann", "Reason: deploy.")
    assert found.holds_up == "3 jobs wait."
    assert found.since == ago(60)


def test_a_late_lane_says_what_keeps_it() -> None:
    def cause(nodes: dict[str, int] = NODES, **values: object) -> tuple[Severity, str]:
        found = only(overview(lanes=[lane(**values)], slow=slow(nodes=nodes)))
        return found.severity, found.cause

    assert cause({}) == (Severity.STOPPED, "No worker node is alive.")
    assert cause(kind="pull", running=0) == (Severity.STOPPED, "No worker claims its jobs.")
    assert cause(kind="pull", running=0, oldest=ago(20))[0] is Severity.FAILING
    assert cause(max_running=2) == (Severity.FAILING, "It is at its limit: 2 of 2 run.")
    assert cause(rate_per_second=0.5) == (Severity.FAILING, "It may start 0.5 a second.")
    assert cause() == (Severity.FAILING, "2 of its jobs run, and more are due.")


def test_late_payments_name_the_missing_settlement_node() -> None:
    late = overview(
        payments_overdue=MarkedCount(1), payments_oldest=ago(30), slow=slow(nodes={"worker": 1})
    )
    assert only(late).cause == "No settlement node is alive."
    assert only(late).runbook == "settlement-stopped"
    assert only(late).since == ago(30)


def test_what_a_halt_holds_up_is_no_alarm_and_the_halt_is_a_note() -> None:
    late = overview(lanes=[lane()], payments_overdue=MarkedCount(1), payments_oldest=ago(30))
    found = only(late, halts=[HALT])
    assert (found.severity, found.actor, found.cause) == (Severity.NOTE, "eve", "Reason: fraud.")
    over = msgspec.structs.replace(HALT, until_at=ago(1))
    assert len(find_problems(facts(late, halts=[over]))) == 2


def test_subscriptions_that_fail_lag_or_are_paused_are_told_apart() -> None:
    def one(failures: int = 0, *, paused: bool = False, lag: int = 2000) -> OverviewProblem:
        row = LaggingSubscription(
            UUID(int=1), {"name": "hooks"}, failures, ago(50) if failures else None, "HTTP 500",
            ago(70) if paused else None, "moving" if paused else None, lag,
        )  # fmt: skip
        return only(overview(subscriptions=[row]))

    assert one().text == "Subscription to hooks is 2,000 events behind."
    assert one(failures=3).cause == "Delivery failed 3 times: HTTP 500."
    assert one(failures=3).since == ago(50)
    assert (one(paused=True).severity, one(paused=True).cause) == (Severity.NOTE, "Reason: moving.")


def test_the_list_names_ten_failing_destinations_and_counts_the_others() -> None:
    troubles = [
        Trouble(
            tenant_id=1, label=f"d{n:02}", held_until=NOW, since=ago(60 - n), calls=4, successes=0,
            p99_ms=9, answers=("HTTP 503",),
        )
        for n in range(12)
    ]  # fmt: skip
    found = find_problems(facts(overview(), troubles=troubles))
    assert found[0].text == "Destination d00 is failing."
    assert found[0].cause == "It last answered: HTTP 503."
    assert found[-1].text == "2 more destinations failing."


def test_what_fails_without_being_held_back_is_named_once() -> None:
    trouble = Trouble(
        tenant_id=1, label="crm", held_until=NOW, since=ago(60), calls=4, successes=0, p99_ms=9,
        answers=("HTTP 503",),
    )  # fmt: skip
    failing = [
        FailingTarget(label=label, since=ago(90), answer="http_404: no such page")
        for label in ("crm", "shop")
    ]
    found = find_problems(facts(overview(slow=slow(failing=failing)), troubles=[trouble]))
    assert [(each.text, each.severity) for each in found] == [
        ("Destination shop is failing.", Severity.FAILING),
        ("Destination crm is failing.", Severity.FAILING),
    ]
    assert found[0].cause == "It last answered: http_404: no such page."
    assert found[0].since == ago(90)
    assert "held back" not in found[0].holds_up


def test_every_runbook_that_is_named_exists() -> None:
    found = find_problems(
        facts(
            overview(
                lanes=[lane(unknown=1)],
                payments_parked=MarkedCount(1),
                payments_overdue=MarkedCount(1),
                payments_oldest=ago(50),
                schedules_set_aside=MarkedCount(1),
                disabled=[DisabledDestination("shop", ago(600), None)],
                subscriptions=[
                    LaggingSubscription(
                        UUID(int=1), {"name": "hooks"}, 1, ago(5), "x", None, None, 5
                    )
                ],
                slow=slow(failures=failures(payments=1, jobs=1)),
            ),
            overdue=["3 due jobs"],
        )
    )
    named = {each.runbook for each in found if each.runbook}
    assert len(named) >= 8
    missing = [name for name in named if not (RUNBOOKS / f"{name}.md").is_file()]
    assert missing == []


def given(role: str, *keys: int, seen: float = 1) -> NodeKeys:
    return NodeKeys([role], list(keys), ago(900), ago(seen))


NEEDS = [KeyNeed(1, "destination", "crm"), KeyNeed(1, "url", ""), KeyNeed(2, "payload", "")]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([given("worker", 1, 2), given("api", 2)], []),
        ([given("settlement")], []),
        ([given("worker", 1, 2), given("worker", 2)], [("worker", 1, 1, 1, 900)]),
        ([given("worker", 2)], [("worker", 1, 1, 0, 900)]),
        ([given("worker", 2), given("worker", 1, seen=60)], [("worker", 1, 1, 0, 60)]),
        ([given("worker", 1, 2), given("api", 1)], [("api", 2, 1, 0, 900)]),
    ],
)
def test_a_key_is_missing_where_live_nodes_lack_what_the_tenant_needs(
    nodes: list[NodeKeys], expected: list[tuple[object, ...]]
) -> None:
    found = find_missing(NEEDS, nodes, NOW)
    told = [
        (one.role, one.key_id, one.lacking, one.having, (NOW - one.since).total_seconds())
        for one in found
    ]
    assert told == expected


def test_a_missing_key_stops_what_no_node_can_open() -> None:
    [none] = find_missing(NEEDS[:2], [given("worker")], NOW)
    [some] = find_missing(NEEDS[2:], [given("worker"), given("worker", 2)], NOW)
    found = find_problems(facts(overview(slow=slow(missing_keys=[none, some]))))
    assert [(each.severity, each.text) for each in found] == [
        (Severity.STOPPED, "No node with the role worker has the secret key 00000001."),
        (Severity.FAILING, "1 of 2 nodes with the role worker lack the secret key 00000002."),
    ]
    assert found[0].cause.startswith(
        "It opens the secrets of crm and the secret that signs calls of bare URLs;"
    )


def test_the_operator_is_told_which_node_lacks_a_key_and_whether_others_have_it() -> None:
    lacking = node("new", "worker", lacks=["0000002a"])
    for others, severity in (([], Severity.STOPPED), ([ALL_ROLES], Severity.FAILING)):
        roles = node("rest", "settlement", "publisher")
        [found] = cluster(nodes=[lacking, roles, *others])
        assert (found.severity, found.text) == (
            severity,
            "Node new lacks the secret key 0000002a.",
        )
        assert found.since == ago(900)
