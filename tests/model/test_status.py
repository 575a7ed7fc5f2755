from postdate.core.status import JOB_MOVES, PAYMENT_MOVES, JobStatus, PaymentStatus
from tidy.status_diagram import diagram


def test_draws_every_move_once_in_the_order_of_the_table() -> None:
    assert diagram(PAYMENT_MOVES).splitlines() == [
        "stateDiagram-v2",
        "    [*] --> PENDING",
        "    PENDING --> EXECUTING",
        "    PENDING --> CANCELLED",
        "    EXECUTING --> PENDING",
        "    EXECUTING --> COMPLETED",
        "    EXECUTING --> FAILED",
        "    EXECUTING --> CANCELLED",
        "    COMPLETED --> [*]",
        "    FAILED --> [*]",
        "    CANCELLED --> [*]",
    ]


def test_has_one_arrow_for_each_move_of_a_job() -> None:
    moves = {(before, after) for before in JobStatus for after in JOB_MOVES[before]}
    arrows = [line.strip() for line in diagram(JOB_MOVES).splitlines() if "[*]" not in line][1:]
    assert sorted(arrows) == sorted(f"{before} --> {after}" for before, after in moves)


def test_tables_name_every_status() -> None:
    assert set(JOB_MOVES) == set(JobStatus)
    assert set(PAYMENT_MOVES) == set(PaymentStatus)
