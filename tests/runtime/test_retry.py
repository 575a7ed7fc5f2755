"""The retry ladder: again, in halves, alone."""

from collections.abc import Sequence

import pytest

from postdate.database.connection.error import LockNotAvailableError, UnavailableError
from postdate.runtime.retry import Backoff, RetryLadder, RetryLimits


class Batches:
    """Adds numbers; a batch with a 13 in it breaks, and the first `faltering` tries falter."""

    def __init__(self, faltering: int = 0, mends_after: int = 1000) -> None:
        self.tried: list[list[int]] = []
        self.given_up: list[tuple[int, str]] = []
        self._faltering = faltering
        self._mends_after = mends_after

    def ladder(self, tries: RetryLimits) -> RetryLadder[int, int]:
        return RetryLadder("test", self._add, self._give_up, tries)

    async def _add(self, items: Sequence[int]) -> int:
        self.tried.append(list(items))
        if len(self.tried) <= self._faltering:
            raise UnavailableError("away")
        if 13 in items and len(self.tried) <= self._mends_after:
            raise ValueError("13")
        return sum(items)

    async def _give_up(self, item: int, error: Exception) -> int:
        self.given_up.append((item, str(error)))
        return 0


async def test_what_breaks_a_batch_is_found_by_halving_and_given_up_alone() -> None:
    batches = Batches()
    assert sum(await batches.ladder(RetryLimits()).run(range(16))) == sum(range(16)) - 13
    assert batches.given_up == [(13, "13")]
    assert len(batches.tried) == 9


async def test_a_database_that_falters_is_asked_again_and_nothing_is_halved() -> None:
    batches = Batches(faltering=3)
    assert await batches.ladder(RetryLimits(transient=4)).run([1, 2]) == [3]
    assert batches.tried == [[1, 2]] * 4


async def test_a_database_that_goes_on_faltering_is_an_error_that_no_item_pays_for() -> None:
    batches = Batches(faltering=4)
    with pytest.raises(UnavailableError):
        await batches.ladder(RetryLimits(transient=4)).run([1, 2])
    assert not batches.given_up


async def test_an_item_alone_has_as_many_tries_as_it_is_given() -> None:
    mended, refused = Batches(mends_after=2), Batches()
    assert await mended.ladder(RetryLimits(alone=3)).run([13]) == [13]
    assert await refused.ladder(RetryLimits(alone=3)).run([13]) == [0]
    assert refused.tried == [[13]] * 3


async def test_an_error_that_does_not_pass_belongs_to_an_item_even_if_it_is_transient() -> None:
    given_up: list[int] = []

    async def locked(items: Sequence[int]) -> int:
        if 7 in items:
            raise LockNotAvailableError("somebody has it")
        return len(items)

    async def give_up(item: int, _: Exception) -> int:
        given_up.append(item)
        return 0

    ladder = RetryLadder("test", locked, give_up, RetryLimits(passing=()))
    assert sum(await ladder.run(range(8))) == 7
    assert given_up == [7]


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(0.1, 0.5)
    assert [round(backoff.pause(failures), 3) for failures in range(1, 5)] == [0.1, 0.2, 0.4, 0.5]
    assert backoff.pause(10_000) == 0.5
