"""A batch that locks accounts for long makes the next one smaller."""

from postdate.settlement.batch_size import LOCKED_SECONDS, MIN_BATCH, BatchSize


def test_a_slow_batch_is_halved_down_to_a_minimum() -> None:
    size = BatchSize(1000)
    sizes = []
    for _ in range(5):
        size.learn(size.current, 2 * LOCKED_SECONDS)
        sizes.append(size.current)
    assert sizes == [500, 250, 125, MIN_BATCH, MIN_BATCH]


def test_a_small_batch_that_was_slow_makes_the_next_small() -> None:
    size = BatchSize(1000)
    size.learn(300, 2 * LOCKED_SECONDS)
    assert size.current == 150


def test_quick_full_batches_bring_the_size_back() -> None:
    size = BatchSize(1000)
    size.learn(1000, 2 * LOCKED_SECONDS)
    size.learn(499, 0.001)
    assert size.current == 500
    size.learn(500, 0.001)
    size.learn(1000, 0.001)
    assert size.current == 1000


def test_a_smaller_maximum_is_kept() -> None:
    size = BatchSize(2)
    size.learn(2, 2 * LOCKED_SECONDS)
    assert size.current == 2
