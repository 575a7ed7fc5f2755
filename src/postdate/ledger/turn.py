"""Batches under way at once, each in its turn: accounts are changed in the order of settling."""

import asyncio


class Turn:
    """The place of a batch behind another.

    A batch may find, lock and prepare what it likes meanwhile, but touches an account only after
    the one before has decided, and thus holds its accounts: what they share is changed in order.
    """

    def __init__(self, before: "Turn | None" = None) -> None:
        self._before = before
        self.decided = asyncio.Event()
        self.ended = asyncio.Event()

    async def come(self) -> None:
        """Wait until the batch before has decided."""
        if self._before is not None:
            await self._before.decided.wait()

    async def come_last(self) -> None:
        """Wait until the batch before has ended: what it paid can be spent now."""
        if self._before is not None:
            await self._before.ended.wait()

    def end(self) -> None:
        """Let the next batch go on, however this one ended."""
        self._before = None
        self.decided.set()
        self.ended.set()
