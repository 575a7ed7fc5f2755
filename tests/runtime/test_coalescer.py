import asyncio
from collections.abc import Sequence

import pytest

from postdate.database.connection.error import CommitUnknownError
from postdate.runtime.coalescer import Coalescer
from postdate.words.error import Code, RefusedError


class Commits:
    """Doubles numbers; refuses groups with a 13 in them; remembers the groups."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []

    async def __call__(self, items: Sequence[int]) -> list[int]:
        self.groups.append(list(items))
        await asyncio.sleep(0)
        if 13 in items:
            raise ValueError("13")
        if 404 in items:
            raise CommitUnknownError("lost")
        return [item * 2 for item in items]


@pytest.mark.parametrize("groups", [1, 2])
async def test_one_after_the_other_nobody_is_forgotten(groups: int) -> None:
    grouper = Coalescer(Commits(), max_groups=groups)
    async with asyncio.timeout(5):
        found = [await grouper.submit(n) for n in range(20, 70)]
        assert found == [n * 2 for n in range(20, 70)]


async def test_together_they_share_a_commit_of_a_bounded_size() -> None:
    commits = Commits()
    grouper = Coalescer(commits, max_group=20, max_groups=1)
    found = await asyncio.gather(*(grouper.submit(n) for n in range(20, 70)))
    assert found == list(range(40, 140, 2))
    assert [len(group) for group in commits.groups] == [20, 20, 10]


async def test_an_error_belongs_to_its_own_item() -> None:
    grouper = Coalescer(Commits(), max_groups=1)
    answers = await asyncio.gather(*(grouper.submit(n) for n in range(20)), return_exceptions=True)
    assert isinstance(answers.pop(13), ValueError)
    assert answers == [n * 2 for n in range(20) if n != 13]


async def test_an_unknown_commit_is_not_repeated() -> None:
    commits = Commits()
    grouper = Coalescer(commits, max_groups=1)
    answers = await asyncio.gather(*(grouper.submit(n) for n in (1, 404)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [CommitUnknownError] * 2
    assert commits.groups == [[1, 404]]


class Gated(Commits):
    """Commits only when it is let; a group with a 13 in it fails before."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()

    async def __call__(self, items: Sequence[int]) -> list[int]:
        if 13 not in items:
            self.groups.append(list(items))
            await self.open.wait()
        return await super().__call__(items)


async def cancelled(grouper: Coalescer[int, int], items: Sequence[int], steps: int) -> list[object]:
    """Submit, cancel every task of the grouper after some steps, and give what the callers got."""
    callers = [asyncio.create_task(grouper.submit(item)) for item in items]
    for _ in range(steps):
        await asyncio.sleep(0)
    for task in [*grouper._draining, *grouper._divided._tasks]:
        task.cancel()
    async with asyncio.timeout(1):
        return list(await asyncio.gather(*callers, return_exceptions=True))


@pytest.mark.parametrize("items", [range(50, 60), range(20)], ids=["one commit", "halves"])
@pytest.mark.parametrize("steps", range(1, 8))
async def test_whoever_waits_gets_an_error_when_the_group_is_cancelled(
    items: Sequence[int], steps: int
) -> None:
    grouper = Coalescer(Gated(), max_group=4, max_groups=1)
    found = await cancelled(grouper, items, steps)
    kinds = {type(each) for each in found}
    assert kinds <= {RefusedError, CommitUnknownError, ValueError}, kinds
    # It is as good as new: nothing of it counts as under way, and nothing waits.
    grouper._commit.open.set()  # type: ignore[attr-defined]
    async with asyncio.timeout(1):
        assert await grouper.submit(21) == 42


async def test_what_was_not_begun_is_refused_and_what_was_begun_is_unknown() -> None:
    found = await cancelled(Coalescer(Gated(), max_group=2, max_groups=1), range(50, 54), 5)
    assert [type(each) for each in found[:2]] == [CommitUnknownError] * 2
    assert [each.refusal.code for each in found[2:] if isinstance(each, RefusedError)] == [
        Code.OVERLOADED
    ] * 2


async def test_an_answer_too_few_is_an_error_for_all() -> None:
    async def forgets(items: Sequence[int]) -> list[int]:
        return list(items[1:])

    grouper: Coalescer[int, int] = Coalescer(forgets, max_groups=1)
    found = await asyncio.gather(*(grouper.submit(n) for n in range(3)), return_exceptions=True)
    assert [type(each) for each in found] == [RuntimeError] * 3
