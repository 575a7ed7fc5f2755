"""Any history of operations ends as the independent model says, step by step."""

import random
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import app_dsn, owner_dsn
from postdate.database.embedded import Embedded
from support.ledger_comparison import FIXED_CLOCK, NAMES, play

Step = tuple[Any, ...]
DELAYS = [1, 1, 2, 3, 5, 9]
FUNDINGS = ["hold", None, None, 2, 9]
BATCHES = [1, 2, 3, 1000]


def wish(dice: random.Random) -> Step:
    return (
        *dice.sample(NAMES, 2), dice.randint(1, 60), dice.choice(DELAYS), dice.choice(FUNDINGS)
    )  # fmt: skip


KINDS: dict[str, Callable[[random.Random], Step]] = {
    "pay": lambda d: tuple(wish(d) for _ in range(d.choice([1, 1, 1, 2, 5]))),
    "advance": lambda d: (d.choice([1, 1, 2, 3, 10, -3]),),
    "settle": lambda d: (d.choice([1, 2, 1000]),),
    "kill": lambda d: (d.randrange(17),),
    "cancel": lambda d: (d.randrange(30),),
    "reschedule": lambda d: (d.randrange(30), d.choice(DELAYS)),
    "execute": lambda d: (d.randrange(30),),
    "adjust": lambda d: (d.choice(NAMES), d.randint(-60, 60)),
    "freeze": lambda d: (d.choice(NAMES),),
    "bound": lambda d: (d.choice(NAMES), d.choice([-30, 0, 0, 20]), d.choice([None, None, 25])),
    "close": lambda d: (d.choice(NAMES),),
}
WEIGHTS = [40, 18, 10, 6, 6, 6, 6, 8, 5, 4, 2]


def step(dice: random.Random) -> Step:
    """Throw one operation: mostly payments, which then come due."""
    kind = dice.choices(list(KINDS), WEIGHTS)[0]
    return (kind, *KINDS[kind](dice))


@pytest.fixture(scope="module")
async def dsns(server: Embedded, database_name: str) -> tuple[str, str]:
    """How to reach a database whose clock stands still."""
    connection = await asyncpg.connect(owner_dsn(server, database_name))
    await connection.execute(FIXED_CLOCK)
    await connection.close()
    return app_dsn(server, database_name), server.credentials.superuser_dsn(database_name)


@pytest.mark.parametrize("seed", range(14))
async def test_every_history_ends_as_the_model_says(dsns: tuple[str, str], seed: int) -> None:
    dice = random.Random(seed)
    await play(*dsns, [step(dice) for _ in range(80)], dice.choice(BATCHES))


async def test_a_payment_that_is_moved_again_after_the_clock_went_back_is_no_finding(
    dsns: tuple[str, str],
) -> None:
    history: list[Step] = [
        ("pay", ("a", "b", 1, 1, "hold")),
        ("advance", 6),
        ("reschedule", 0, 9),
        ("advance", -3),
        ("reschedule", 0, 1),
    ]
    await play(*dsns, history, 1)


@pytest.mark.soak
@settings(max_examples=500, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.randoms(use_true_random=False).map(step), min_size=20, max_size=80),
    st.sampled_from(BATCHES),
)
async def test_hundreds_of_histories_end_as_the_model_says(
    dsns: tuple[str, str], history: list[Step], batch_most: int
) -> None:
    """Finds and makes small what the seeds above miss."""
    await play(*dsns, history, batch_most)
