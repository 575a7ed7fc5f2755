import asyncio
from collections.abc import Sequence

import pytest

from postdate.store.database import CommitUnknownError
from postdate.store.group import Grouper


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
    grouper = Grouper(Commits(), groups=groups)
    async with asyncio.timeout(5):
        found = [await grouper.submit(n) for n in range(20, 70)]
        assert found == [n * 2 for n in range(20, 70)]


async def test_together_they_share_a_commit_of_a_bounded_size() -> None:
    commits = Commits()
    grouper = Grouper(commits, most=20, groups=1)
    found = await asyncio.gather(*(grouper.submit(n) for n in range(20, 70)))
    assert found == list(range(40, 140, 2))
    assert [len(group) for group in commits.groups] == [20, 20, 10]


async def test_an_error_belongs_to_its_own_item() -> None:
    grouper = Grouper(Commits(), groups=1)
    answers = await asyncio.gather(*(grouper.submit(n) for n in range(20)), return_exceptions=True)
    assert isinstance(answers.pop(13), ValueError)
    assert answers == [n * 2 for n in range(20) if n != 13]


async def test_an_unknown_commit_is_not_repeated() -> None:
    commits = Commits()
    grouper = Grouper(commits, groups=1)
    answers = await asyncio.gather(*(grouper.submit(n) for n in (1, 404)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [CommitUnknownError] * 2
    assert commits.groups == [[1, 404]]
