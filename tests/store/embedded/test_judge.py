"""The judge of a server: what it takes for a sign of life, and what for none."""

from collections.abc import Callable

import pytest

from postdate.database.embedded.judge import (
    SILENT_CHECKS,
    STILL_CHECKS,
    Judgement,
    Look,
    Part,
    ProbeAnswer,
    Work,
    is_stuck,
    judge,
)

RECOVERY = Work(Part.RECOVERY)
IDLE = {1: Work(Part.POSTMASTER), 7: RECOVERY, 9: Work(Part.OTHER)}
LATE = 5.0


def looked(number: int, look: Callable[[int], Look]) -> Judgement:
    """Judge after so many looks, the first of which only learns where everything stands."""
    judgement = Judgement()
    for each in range(number + 1):
        judgement = judge(judgement, look(each))
    return judgement


def stuck(number: int, look: Callable[[int], Look], replaced: int = 0) -> bool:
    return is_stuck(looked(number, look), look(0).answer, replaced)


def still(answer: ProbeAnswer, late_seconds: float = 0.0, status: str = "ready") -> Look:
    return Look(late_seconds, answer, status, IDLE)


def starting(work: Work, status: str = "starting") -> Look:
    return Look(0.0, ProbeAnswer.STARTING, status, {**IDLE, 7: work})


@pytest.mark.parametrize(
    ("answer", "looks"),
    [
        (ProbeAnswer.STARTING, STILL_CHECKS),
        (ProbeAnswer.CLOSED, SILENT_CHECKS),
        (ProbeAnswer.NONE_YET, SILENT_CHECKS),
    ],
)
def test_server_without_a_sign_of_life_is_stuck(answer: ProbeAnswer, looks: int) -> None:
    assert not stuck(looks - 1, lambda _: still(answer))
    assert stuck(looks, lambda _: still(answer))


def test_judge_is_twice_as_patient_with_the_next() -> None:
    def wait(_: int) -> Look:
        return still(ProbeAnswer.STARTING)

    assert not stuck(2 * STILL_CHECKS - 1, wait, replaced=1)
    assert stuck(2 * STILL_CHECKS, wait, replaced=1)
    assert stuck(64 * STILL_CHECKS, wait, replaced=1000)


@pytest.mark.parametrize("answer", [ProbeAnswer.STARTING, ProbeAnswer.CLOSED, ProbeAnswer.NONE_YET])
def test_look_that_came_late_proves_nothing(answer: ProbeAnswer) -> None:
    assert looked(1000, lambda _: still(answer, LATE)).still == 0


def test_late_look_neither_adds_nor_takes_away() -> None:
    halted = looked(
        STILL_CHECKS, lambda n: still(ProbeAnswer.NONE_YET, LATE if n == STILL_CHECKS // 2 else 0)
    )
    assert halted.still == STILL_CHECKS - 1


def test_late_look_that_sees_work_counts() -> None:
    before = looked(STILL_CHECKS - 1, lambda _: still(ProbeAnswer.STARTING))
    worked = {**IDLE, 7: RECOVERY._replace(bytes_moved=8192)}
    assert judge(before, Look(LATE, ProbeAnswer.STARTING, "ready", worked)).still == 0


@pytest.mark.parametrize(
    "step",
    [
        lambda n: RECOVERY._replace(bytes_moved=n),
        lambda n: RECOVERY._replace(cpu_seconds=0.06 * n),
        # Before it replays, a recovery has some thousand files written: hardly any work.
        lambda n: RECOVERY._replace(waits=20 * n),
        # It waits for a processor that others use, or for a disk: that is not up to it.
        lambda _: RECOVERY._replace(busy=True),
    ],
    ids=["reads", "computes", "waits often", "is held up"],
)
def test_recovery_that_moves_is_left_alone(step: Callable[[int], Work]) -> None:
    assert not stuck(1000, lambda n: starting(step(n)))


def test_slow_steps_of_a_recovery_add_up() -> None:
    assert not stuck(1000, lambda n: starting(RECOVERY._replace(cpu_seconds=0.005 * n)))


def test_recovery_that_only_wakes_now_and_then_is_stuck() -> None:
    def wake(n: int) -> Work:
        return RECOVERY._replace(cpu_seconds=0.001 * n, waits=5 * n)

    assert stuck(SILENT_CHECKS, lambda n: starting(wake(n)))


def test_work_for_logins_is_no_sign_of_a_recovery() -> None:
    def busy(n: int) -> Look:
        work = {
            1: Work(Part.POSTMASTER, cpu_seconds=n, waits=100 * n),
            7: RECOVERY,
            100 + n // 2: Work(Part.OTHER, bytes_moved=n, busy=True),
        }
        return Look(0.0, ProbeAnswer.STARTING, "ready", work)

    assert stuck(SILENT_CHECKS, busy)


def test_working_backends_are_a_sign_of_life_of_a_ready_server() -> None:
    def busy(n: int) -> Look:
        work = {**IDLE, 9: Work(Part.OTHER, bytes_moved=n)}
        return Look(0.0, ProbeAnswer.NONE_YET, "ready", work)

    assert not stuck(1000, busy)


def test_suspended_postmaster_is_stuck_whatever_its_children_do() -> None:
    def suspended(n: int) -> Look:
        work = {
            1: Work(Part.POSTMASTER, suspended=True),
            9: Work(Part.OTHER, bytes_moved=n),
        }
        return Look(0.0, ProbeAnswer.NONE_YET, "ready", work)

    assert stuck(SILENT_CHECKS, suspended)


def test_postmaster_without_children_prepares_the_start() -> None:
    def prepare(n: int) -> Look:
        return Look(0.0, ProbeAnswer.CLOSED, "", {1: Work(Part.POSTMASTER, cpu_seconds=n)})

    assert not stuck(1000, prepare)


@pytest.mark.parametrize("answer", [ProbeAnswer.READY, ProbeAnswer.REFUSING])
def test_server_that_answers_is_not_stuck(answer: ProbeAnswer) -> None:
    assert looked(1000, lambda _: still(answer)).still == 0


def test_change_of_the_status_line_is_a_sign_of_life() -> None:
    before = looked(STILL_CHECKS - 1, lambda _: still(ProbeAnswer.STARTING, status="starting"))
    assert judge(before, still(ProbeAnswer.STARTING, status="ready")).still == 0
