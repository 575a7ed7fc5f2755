"""Seeded violations: each changes what a run has left so that one invariant no longer holds."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

TENANT: Final = "amber"
STRANGER: Final = "birch"
JOB: Final = "01a1f048-0000-7000-8000-000000000001"
SCHEDULE: Final = "01a1f048-0000-7000-8000-000000000002"
OTHER: Final = "01a1f048-0000-7000-8000-000000000003"
EARLY: Final = "2026-01-01T00:00:00Z"

Row = dict[str, Any]


class Seeded(NamedTuple):
    """One violation: the invariant that it breaks, and how."""

    invariant: str
    name: str
    seed: Callable[[Path], None]


def _columns(home: Path, table: str) -> list[str]:
    found: list[str] = json.loads((home / "columns.json").read_text())[f"chaos_{table}"]
    return found


def rows(home: Path, table: str) -> list[Row]:
    path = home / "left" / TENANT / f"chaos_{table}.jsonl"
    columns = _columns(home, table)
    return [
        dict(zip(columns, json.loads(line), strict=True)) for line in path.read_text().splitlines()
    ]


def write(home: Path, table: str, changed: list[Row]) -> None:
    path = home / "left" / TENANT / f"chaos_{table}.jsonl"
    path.write_text("".join(json.dumps([*row.values()]) + "\n" for row in changed))


def change(home: Path, table: str, which: Callable[[Row], Any], **values: Any) -> Row:
    """Change the first row that is wanted."""
    all_rows = rows(home, table)
    wanted = next(row for row in all_rows if which(row))
    wanted.update(values)
    write(home, table, all_rows)
    return wanted


def remove(home: Path, table: str, which: Callable[[Row], Any]) -> None:
    write(home, table, [row for row in rows(home, table) if not which(row)])


def add(home: Path, *lines: Row) -> None:
    with (home / "history" / f"{TENANT}.jsonl").open("a") as file:
        for line in lines:
            file.write(json.dumps({"tenant": TENANT, "by": f"client-{TENANT}", **line}) + "\n")


def call(op: str, n: int, at: float, asked: Row, answer: Row) -> tuple[Row, Row]:
    """An operation that was asked for and acknowledged."""
    return (
        {"at": at, "type": "invoke", "op": op, "n": n, "data": asked},
        {"at": at + 0.1, "type": "ok", "op": op, "n": n,
         "data": {**asked, "status": 200, "answer": answer}},
    )  # fmt: skip


def fact(home: Path, **values: Any) -> None:
    path = home / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def _paid(home: Path) -> Row:
    ended = {row["subject"] for row in rows(home, "outcomes") if row["status"] == "COMPLETED"}
    return next(row for row in rows(home, "payments") if row["payment_id"] in ended)


def empty_transfer(home: Path) -> None:
    change(home, "transfers", lambda row: row["payment_id"], amount=0)


def other_amount(home: Path) -> None:
    change(home, "transfers", lambda row: row["payment_id"], amount=7_000_000)


def balance(home: Path) -> None:
    change(home, "accounts", lambda row: row["account_id"] == "a0", balance=1)


def hold(home: Path) -> None:
    change(home, "accounts", lambda row: row["account_id"] == "a1", held=5)


def lost_payment(home: Path) -> None:
    lost = _paid(home)["payment_id"]
    remove(home, "payments", lambda row: row["payment_id"] == lost)


def lost_job(home: Path) -> None:
    add(home, *call("job.create", 900, 6.0, {"key": "lost", "delay": 0, "on_unknown": "retry"},
                    {"job_id": JOB}))  # fmt: skip


def open_for_ever(home: Path) -> None:
    paid = _paid(home)["payment_id"]
    remove(home, "outcomes", lambda row: row["subject"] == paid)


def paid_twice(home: Path) -> None:
    """The same payment moves its amount once more, and every book is written to agree."""
    twice = _paid(home)["payment_id"]
    transfers, accounts = rows(home, "transfers"), rows(home, "accounts")
    moved = next(row for row in transfers if row["payment_id"] == twice)
    again = moved | {"transfer_id": OTHER}
    for side, amount in (("from", -moved["amount"]), ("to", moved["amount"])):
        account = next(row for row in accounts if row["account_id"] == moved[f"{side}_account"])
        account["balance"] += amount
        account["version"] += 1
        again |= {f"{side}_{name}": account[name] for name in ("balance", "version")}
    write(home, "transfers", [*transfers, again])
    write(home, "accounts", accounts)


def two_for_a_key(home: Path) -> None:
    asked = {"key": "pay-twice", "delay": 1}
    add(home, *call("payment.schedule", 901, 6.0, asked, {"payment_id": JOB}))
    add(home, *call("payment.repeat", 902, 6.5, asked, {"payment_id": OTHER}))


def early(home: Path) -> None:
    paid = _paid(home)["payment_id"]
    change(home, "outcomes", lambda row: row["subject"] == paid, started_at=EARLY)


def changed_status(home: Path) -> None:
    add(home, *call("payment.read", 903, 9.0, {"subject": _paid(home)["payment_id"]},
                    {"status": "FAILED"}))  # fmt: skip


def ignored_cancel(home: Path) -> None:
    add(home, *call("payment.cancel", 904, 9.0, {"subject": _paid(home)["payment_id"]},
                    {"status": "CANCELLED"}))  # fmt: skip


def attempt_gap(home: Path) -> None:
    gap = {"tenant_id": 3, "subject": JOB, "attempt": 2, "status": "FAILED", "due_at": EARLY,
           "started_at": EARLY, "finished_at": EARLY}  # fmt: skip
    write(home, "attempts", [*rows(home, "attempts"), gap])


def _claimed(token: int, n: int, at: float) -> tuple[Row, Row]:
    return call("lease.claim", n, at, {}, {"leases": [{"job_id": JOB, "token": token}]})


def falling_token(home: Path) -> None:
    add(home, *_claimed(9, 905, 9.0), *_claimed(8, 906, 9.5))


def stale_report(home: Path) -> None:
    report = {"subject": JOB, "token": 8, "attempt": 1}
    add(home, *_claimed(8, 907, 9.0), *_claimed(9, 908, 9.5))
    add(home, *call("lease.complete", 907, 9.8, report, {"job_id": JOB}))


def _arrived(home: Path) -> list[Row]:
    path = home / "history" / f"{TENANT}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    done = {row["subject"] for row in rows(home, "outcomes") if row["status"] == "COMPLETED"}
    return [
        line for line in lines
        if line["op"] == "arrival" and line["data"]["behaviour"] == "obey"
        and line["data"]["id"] in done
    ]  # fmt: skip


def sent_twice(home: Path) -> None:
    """A batch that was acknowledged twice, with a job that may arrive once, and did."""
    job_id = _arrived(home)[0]["data"]["id"]
    asked = {"keys": "batch-9-", "delays": [0], "held": [0], "wall": 0.0}
    for _ in range(2):
        add(home, *call("job.batch", 911, 0.0, asked, {"ids": [job_id]}))


def never_arrived(home: Path) -> None:
    path = home / "history" / f"{TENANT}.jsonl"
    gone = _arrived(home)[0]["data"]["id"]
    kept = [
        line
        for line in path.read_text().splitlines(keepends=True)
        if not ('"arrival"' in line and gone in line)
    ]
    path.write_text("".join(kept))


def arrived_for_no_reason(home: Path) -> None:
    line = _arrived(home)[0]
    at = line["at"] + 3600
    for token in range(1, 3):
        add(home, line | {"at": at + token, "data": line["data"] | {"token": token}})
    (home / "history" / "run.jsonl").write_text("")


def one_job_as_two(home: Path) -> None:
    line = _arrived(home)[0]
    add(home, line | {"data": line["data"] | {"id": JOB}})


def skipped_occurrence(home: Path) -> None:
    asked = {"rule": {"every_seconds": 2, "cron": None, "overlap": "skip"}, "misfire": "skip"}
    add(home, *call("schedule.create", 909, 6.0, asked, {"schedule_id": SCHEDULE}))
    book = [
        {"tenant_id": 3, "schedule_id": SCHEDULE, "scheduled_for": f"2026-11-18T20:10:{s:02}Z",
         "status": "MISSED", "cause": "rule", "subject": None}
        for s in (2, 4, 8)
    ]  # fmt: skip
    write(home, "occurrences", [*rows(home, "occurrences"), *book])


def occurrence_of_nothing(home: Path) -> None:
    row = {"tenant_id": 3, "schedule_id": SCHEDULE, "scheduled_for": EARLY, "status": "FIRED",
           "cause": "rule", "subject": JOB}  # fmt: skip
    write(home, "occurrences", [*rows(home, "occurrences"), row])


def foreign_answer(home: Path) -> None:
    add(home, *call("job.read", 910, 9.0, {"subject": JOB},
                    {"status": "PENDING", "payload": f"canary-of-{STRANGER}"}))  # fmt: skip


def guest_reached(home: Path) -> None:
    add_to_run(home, {"at": 9.0, "by": "nemesis", "type": "invoke", "op": "guest", "n": 99},
               {"at": 9.5, "by": "nemesis", "type": "ok", "op": "guest", "n": 99,
                "data": {"did": "reached payment"}})  # fmt: skip


def add_to_run(home: Path, *lines: Row) -> None:
    with (home / "history" / "run.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def _probed(home: Path, seconds: int, writes: bool, wrote: bool) -> None:  # noqa: FBT001
    said = {"ready": True, "reads": True, "writes": writes}
    add_to_run(home, *(
        {"at": at, "by": "run", "type": "info", "op": "readiness", "n": at,
         "data": {"url": "http://a", "asked": at, "said": said, "read": True, "write": wrote}}
        for at in range(100, 100 + seconds)
    ))  # fmt: skip


SEEDED: Final = (
    Seeded("I1", "a transfer moves nothing", empty_transfer),
    Seeded("I2", "a transfer has another amount", other_amount),
    Seeded("I2", "a balance differs", balance),
    Seeded("I2", "a hold without a payment", hold),
    Seeded("I3", "an acknowledged payment is gone", lost_payment),
    Seeded("I3", "an acknowledged job is gone", lost_job),
    Seeded("I3", "a payment never ends", open_for_ever),
    Seeded("I4", "a payment moves twice", paid_twice),
    Seeded("I4", "a key has two payments", two_for_a_key),
    Seeded("I5", "a payment begins early", early),
    Seeded("I6", "a final status changed", changed_status),
    Seeded("I6", "an acknowledged cancel is ignored", ignored_cancel),
    Seeded("I6", "an attempt is missing", attempt_gap),
    Seeded("I6", "a token fell", falling_token),
    Seeded("I7", "an old token completes", stale_report),
    Seeded("I8", "complete without an arrival", never_arrived),
    Seeded("I8", "arrivals without a fault", arrived_for_no_reason),
    Seeded("I8", "one job under two ids", one_job_as_two),
    Seeded("I9", "an occurrence is skipped", skipped_occurrence),
    Seeded("I9", "an occurrence became nothing", occurrence_of_nothing),
    Seeded("I10", "a foreign answer", foreign_answer),
    Seeded("I11", "something stayed open", lambda home: fact(home, drained_seconds=None)),
    Seeded("I11", "a late probe", lambda home: fact(home, probe_seconds=[9.0])),
    Seeded("I12", "the chain does not verify", lambda home: fact(home, chain=["chain_head: x"])),
    Seeded("I12", "nothing is anchored", lambda home: fact(home, anchored=0)),
    Seeded("I10", "a bound login reached a table", guest_reached),
    Seeded("I13", "writes are promised", lambda home: _probed(home, 10, writes=True, wrote=False)),
    Seeded("I13", "writes are denied", lambda home: _probed(home, 17, writes=False, wrote=True)),
)
