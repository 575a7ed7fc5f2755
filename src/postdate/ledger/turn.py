"""Batches under way at once, each in its turn: accounts are changed in the order of settling."""

import asyncio


class Turn:
    """The place of a batch behind another.

    A batch may find, lock and prepare what it likes meanwhile, but touches an account only after
    the one before has ended: what both share is changed in order, and what the one before paid can
    be spent. The database would let it wait for the accounts that they share, and look at each of
    them twice.
    """

    def __init__(self, before: "Turn | None" = None) -> None:
        self._before = before
        self.ended = asyncio.Event()

    async def come(self) -> None:
        """Wait until the batch before has ended."""
        if self._before is not None:
            await self._before.ended.wait()

    def end(self) -> None:
        """Let the next batch go on, however this one ended."""
        self._before = None
        self.ended.set()
