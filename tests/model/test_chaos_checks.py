"""The checkers of `postdate chaos`: silent about a good run, and each finds what it is for."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from postdate.recurrence.rule import Status
from postdate_lab.chaos import report
from postdate_lab.chaos.database import (
    AccountEvidence,
    AttemptEvidence,
    JobEvidence,
    OccurrenceEvidence,
    OutcomeEvidence,
    PaymentEvidence,
    Snapshot,
    TimerEvidence,
    TransferEvidence,
)
from postdate_lab.chaos.evidence import Evidence
from postdate_lab.chaos.history import HistoryLine, Recorder, read
from postdate_lab.chaos.plan import ChaosPlan
from postdate_lab.chaos.system_check import CHECKS

AT = datetime(2030, 1, 1, tzinfo=UTC)
PAYMENT, JOB, PULLED, FIRED, FIRED_NEXT = (UUID(int=n) for n in range(1, 6))
TRANSFER, OPENING, SCHEDULE = (UUID(int=n) for n in range(11, 14))
BODY = '{"canary":"canary-of-amber","n":2,"part":0}'


def line(
    at: float, kind: Any, op: str, n: int = 0, by: str = "client-amber", **data: Any
) -> HistoryLine:
    return HistoryLine(at=at, by=by, type=kind, op=op, n=n, tenant="amber", data=data)


def arrival(
    at: float, job_id: UUID, token: int, behaviour: str = "obey", body: str = BODY
) -> HistoryLine:
    return line(
        at, "info", "arrival", by=f"receiver-{behaviour}", behaviour=behaviour, id=str(job_id),
        token=token, attempt=1, body=body,
    )  # fmt: skip


def lease(at: float, n: int, token: int) -> list[HistoryLine]:
    answer = {"leases": [{"job_id": str(PULLED), "token": token, "attempt": 1}]}
    return [
        line(at, "invoke", "lease.claim", n),
        line(at + 0.1, "ok", "lease.claim", n, answer=answer),
    ]


def reported(at: float, n: int, token: int) -> list[HistoryLine]:
    about: dict[str, Any] = {"subject": str(PULLED), "token": token}
    return [
        line(at, "invoke", "lease.complete", n, **about),
        line(at + 0.1, "ok", "lease.complete", n, **about),
    ]


def job(job_id: UUID, sort: str = "webhook", schedule_id: UUID | None = None) -> JobEvidence:
    return JobEvidence(1, job_id, AT, AT, schedule_id, sort)


def ended(
    subject: UUID, status: str = "COMPLETED", transfer: UUID | None = None
) -> OutcomeEvidence:
    return OutcomeEvidence(1, subject, status, 1, AT, AT, AT, transfer)


def occurrence(second: int, subject: UUID | None, status: str = "FIRED") -> OccurrenceEvidence:
    at = AT + timedelta(seconds=second)
    return OccurrenceEvidence(1, SCHEDULE, at, status, "rule", subject)


def good() -> Evidence:
    rule = {"every_seconds": 1, "cron": None, "overlap": "allow"}
    pay: dict[str, Any] = {"key": "pay-1", "delay": 1, "amount": 30}
    lines = [
        line(0, "invoke", "payment.schedule", 1, **pay),
        line(0.1, "ok", "payment.schedule", 1, answer={"payment_id": str(PAYMENT)}, **pay),
        line(0.2, "invoke", "job.create", 2, delay=1, on_unknown="retry", behaviour="obey"),
        line(0.3, "ok", "job.create", 2, answer={"job_id": str(JOB)}),
        line(0.4, "invoke", "schedule.create", 3),
        line(
            0.5,
            "ok",
            "schedule.create",
            3,
            answer={"schedule_id": str(SCHEDULE)},
            rule=rule,
            misfire="fire_all",
        ),
        line(2, "invoke", "payment.read", 4),
        line(2.1, "ok", "payment.read", 4, subject=str(PAYMENT), answer={"status": "COMPLETED"}),
        arrival(1.3, JOB, 7),
        arrival(3, FIRED, 8, body='{"canary":"canary-of-amber","n":3}'),
        arrival(4, FIRED_NEXT, 9, body='{"canary":"canary-of-amber","n":3}'),
        *lease(1, 5, 100),
        *reported(1.5, 5, 100),
    ]
    left = Snapshot(
        accounts=[
            AccountEvidence(1, "a0", 70, 0, 2, 0),
            AccountEvidence(1, "a1", 30, 0, 1, 0),
            AccountEvidence(1, "issuer", -100, 0, 1, None),
        ],
        transfers=[
            TransferEvidence(1, OPENING, None, 100, "issuer", -100, 1, "a0", 100, 1),
            TransferEvidence(1, TRANSFER, PAYMENT, 30, "a0", 70, 2, "a1", 30, 1),
        ],
        payments=[PaymentEvidence(1, PAYMENT, "a0", "a1", 30, True, AT, None)],
        jobs=[job(JOB), job(PULLED, "worker"), job(FIRED, "webhook", SCHEDULE),
              job(FIRED_NEXT, "webhook", SCHEDULE)],
        outcomes=[ended(PAYMENT, transfer=TRANSFER),
                  *(ended(each) for each in (JOB, PULLED, FIRED, FIRED_NEXT))],
        occurrences=[occurrence(0, FIRED), occurrence(1, FIRED_NEXT)],
    )  # fmt: skip
    return Evidence(
        lines=lines, left=left, drain_seconds=90, drained_seconds=1.0, probe_seconds=[0.1],
        links=9, anchored=1,
    )  # fmt: skip


Change = Callable[[Evidence], None]


def keep_a_transfer_twice(seen: Evidence) -> None:
    seen.left.transfers.append(seen.left.transfers[1])


def move_nothing(seen: Evidence) -> None:
    seen.left.transfers[1] = TransferEvidence(1, TRANSFER, PAYMENT, 0, "a0", 100, 2, "a1", 0, 1)


def pay_oneself(seen: Evidence) -> None:
    seen.left.transfers[1] = TransferEvidence(1, TRANSFER, PAYMENT, 30, "a0", 70, 2, "a0", 100, 3)


def make_money(seen: Evidence) -> None:
    seen.left.accounts[1] = AccountEvidence(1, "a1", 31, 0, 1, 0)


def lose_transfer(seen: Evidence) -> None:
    del seen.left.transfers[1]


def keep_held(seen: Evidence) -> None:
    seen.left.accounts[0] = AccountEvidence(1, "a0", 70, 30, 2, 0)


def lose_version(seen: Evidence) -> None:
    seen.left.accounts[0] = AccountEvidence(1, "a0", 70, 0, 3, 0)


def below_floor(seen: Evidence) -> None:
    seen.left.accounts[0] = AccountEvidence(1, "a0", 70, 0, 2, 80)


def contradict(seen: Evidence) -> None:
    seen.proof.append("held_is_open_payments: 3 is held")


def lose_payment(seen: Evidence) -> None:
    seen.left.payments.clear()


def lose_job(seen: Evidence) -> None:
    del seen.left.jobs[0]


def leave_open(seen: Evidence) -> None:
    del seen.left.outcomes[1]


def keep_timer(seen: Evidence) -> None:
    seen.left.timers.append(TimerEvidence(1, 0, PAYMENT, AT, False))


def pay_twice(seen: Evidence) -> None:
    other, move = UUID(int=99), UUID(int=98)
    pay: dict[str, Any] = {"key": "pay-1", "delay": 1, "amount": 30}
    seen.lines.append(line(5, "invoke", "payment.repeat", 1, **pay))
    seen.lines.append(
        line(5.1, "ok", "payment.repeat", 1, answer={"payment_id": str(other)}, **pay)
    )
    seen.left.payments.append(PaymentEvidence(1, other, "a0", "a1", 30, True, AT, None))
    seen.left.outcomes.append(ended(other, "CANCELLED", move))


def transfer_twice(seen: Evidence) -> None:
    seen.left.transfers.append(
        TransferEvidence(1, UUID(int=77), PAYMENT, 30, "a0", 40, 3, "a1", 60, 2)
    )
    seen.left.accounts[0] = AccountEvidence(1, "a0", 40, 0, 3, 0)
    seen.left.accounts[1] = AccountEvidence(1, "a1", 60, 0, 2, 0)


def begin_early(seen: Evidence) -> None:
    seen.left.outcomes[1] = OutcomeEvidence(
        1, JOB, "COMPLETED", 1, AT, AT - timedelta(seconds=1), AT, None
    )


def arrive_early(seen: Evidence) -> None:
    seen.lines.insert(4, arrival(0.9, JOB, 6))
    del seen.lines[9]


def tell_early(seen: Evidence) -> None:
    body = f'{{"type":"payment.completed","subject":"{PAYMENT}"}}'
    seen.lines.append(arrival(0.5, UUID(int=60), 1, "events", body))


def change_the_end(seen: Evidence) -> None:
    seen.lines[7] = line(
        2.1, "ok", "payment.read", 4, subject=str(PAYMENT), answer={"status": "FAILED"}
    )


def cancel_in_vain(seen: Evidence) -> None:
    seen.lines.append(line(5, "invoke", "payment.cancel", 9))
    seen.lines.append(line(5.1, "ok", "payment.cancel", 9, subject=str(PAYMENT)))


def skip_attempt(seen: Evidence) -> None:
    seen.left.attempts.append(AttemptEvidence(1, JOB, 2, "FAILED", AT, AT, AT))


def reuse_token(seen: Evidence) -> None:
    seen.lines += lease(5, 6, 100)


def arrive_with_one_token(seen: Evidence) -> None:
    seen.lines += [
        line(0, "invoke", "kill", 1, by="nemesis"),
        line(0.1, "ok", "kill", 1, by="nemesis"),
        arrival(2, JOB, 7),
    ]


def take_stale_token(seen: Evidence) -> None:
    seen.lines += [*lease(5, 6, 200), *reported(6, 7, 150)]


def never_arrive(seen: Evidence) -> None:
    seen.lines = [each for each in seen.lines if each.data.get("id") != str(JOB)]


def arrive_twice(seen: Evidence) -> None:
    seen.lines.append(arrival(2, JOB, 70))


def arrive_under_another_id(seen: Evidence) -> None:
    seen.lines.append(arrival(2, UUID(int=61), 71))


def miss_the_stream(seen: Evidence) -> None:
    seen.left.jobs.append(job(UUID(int=62), "queue"))
    seen.left.outcomes.append(ended(UUID(int=62)))


def arrive_twice_on_hold(seen: Evidence) -> None:
    seen.lines[2] = line(
        0.2, "invoke", "job.create", 2, delay=1, on_unknown="hold", behaviour="obey"
    )
    arrive_with_one_token(seen)
    seen.lines[-1] = arrival(2, JOB, 70)


def lose_occurrence(seen: Evidence) -> None:
    seen.left.occurrences[1] = occurrence(2, FIRED_NEXT)


def fire_twice(seen: Evidence) -> None:
    seen.left.occurrences.append(occurrence(2, FIRED))


def skip_what_may_overlap(seen: Evidence) -> None:
    seen.left.occurrences.append(occurrence(2, None, Status.SKIPPED_BY_OVERLAP))


def miss_what_should_fire(seen: Evidence) -> None:
    seen.left.occurrences.append(occurrence(2, None, Status.MISSED))


def fire_into_nothing(seen: Evidence) -> None:
    seen.left.occurrences.append(occurrence(2, UUID(int=63)))


def show_another_tenant(seen: Evidence) -> None:
    answer = {"status": "COMPLETED", "description": "canary-of-birch"}
    seen.lines.append(line(5, "ok", "payment.read", 4, subject=str(PAYMENT), answer=answer))


def deliver_to_another_tenant(seen: Evidence) -> None:
    seen.messages.append(("chaos.amber", str(UUID(int=64)), "canary-of-cedar"))


def log_a_payload(seen: Evidence) -> None:
    seen.leaks.append("canary-of-amber stands in 0-api.log")


def never_end(seen: Evidence) -> None:
    seen.drained_seconds = None


def stay_slow(seen: Evidence) -> None:
    seen.probe_seconds.append(9.0)


def break_the_chain(seen: Evidence) -> None:
    seen.chain.append("chain_cut_off: 7: Cut off")


def anchor_nothing(seen: Evidence) -> None:
    seen.anchored = 0


FINDS: list[tuple[str, Change]] = [
    ("I1", keep_a_transfer_twice), ("I1", move_nothing), ("I1", pay_oneself), ("I1", make_money),
    ("I2", lose_transfer), ("I4", lose_transfer),
    ("I2", keep_held), ("I2", lose_version), ("I2", below_floor), ("I2", contradict),
    ("I3", lose_payment), ("I3", lose_job), ("I3", leave_open), ("I3", keep_timer),
    ("I4", pay_twice), ("I4", transfer_twice),
    ("I5", begin_early), ("I5", arrive_early), ("I5", tell_early),
    ("I6", change_the_end), ("I6", cancel_in_vain), ("I6", skip_attempt), ("I6", reuse_token),
    ("I6", arrive_with_one_token),
    ("I7", take_stale_token),
    ("I8", never_arrive), ("I8", arrive_twice), ("I8", arrive_under_another_id),
    ("I8", miss_the_stream), ("I8", arrive_twice_on_hold),
    ("I9", lose_occurrence), ("I9", fire_twice), ("I9", skip_what_may_overlap),
    ("I9", miss_what_should_fire), ("I9", fire_into_nothing),
    ("I10", show_another_tenant), ("I10", deliver_to_another_tenant), ("I10", log_a_payload),
    ("I11", never_end), ("I11", stay_slow),
    ("I12", break_the_chain), ("I12", anchor_nothing),
]  # fmt: skip


def test_a_good_run_is_passed_by_every_checker() -> None:
    found, _ = report.judge(ChaosPlan(seed=1), [good()])
    assert found.violations == []
    assert found.verdict == "every invariant held"


@pytest.mark.parametrize(("invariant", "change"), FINDS)
def test_a_checker_finds_what_it_is_for(invariant: str, change: Change) -> None:
    seen = good()
    change(seen)
    assert list(CHECKS[invariant](seen))


def test_every_invariant_has_a_checker_and_a_sample() -> None:
    assert list(CHECKS) == [f"I{n}" for n in range(1, 14)]
    assert {invariant for invariant, _ in FINDS} | {"I13"} == set(CHECKS)


def test_an_extra_arrival_is_explained_by_a_fault() -> None:
    seen = good()
    arrive_with_one_token(seen)
    seen.lines[-1] = arrival(2, JOB, 70)
    assert not list(CHECKS["I8"](seen))


def test_the_report_says_how_to_run_it_again_and_names_what_broke() -> None:
    seen = good()
    break_the_chain(seen)
    arrive_with_one_token(seen)
    plan = ChaosPlan(seed=5, faults=("kill",))
    found, summary = report.judge(plan, [seen])
    assert not found.holds
    text, page = report.markdown(found), report.html(found, report.picture(summary))
    for each in (plan.command(), "I12", "Cut off", "--fault kill"):
        assert each in text
        assert each in page
    assert "<svg" in page
    assert "--fault none" in ChaosPlan(seed=5, faults=()).command()


def test_evidence_survives_being_written_down() -> None:
    data = msgspec.json.encode((ChaosPlan(seed=5), good()))
    _, seen = msgspec.json.decode(data, type=tuple[ChaosPlan, Evidence])
    assert report.judge(ChaosPlan(seed=5), [seen])[0].holds


def test_a_history_reads_as_it_was_recorded(tmp_path: Any) -> None:
    record = Recorder(tmp_path)
    lines = [record("client-amber", "invoke", "job.create", 3, "amber", key="job-3")]
    record.close()
    with (tmp_path / "amber.jsonl").open("ab") as file:
        file.write(b'{"torn')
    assert list(read(tmp_path / "amber.jsonl")) == lines
