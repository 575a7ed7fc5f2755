"""Order overlapping batches: each changes its accounts after the one before has committed."""

import asyncio


class BeginAgainError(Exception):
    """The batch before starts over: roll back, it may need rows that this one has locked."""


class BatchOrder:
    """The position of a batch behind another.

    A batch may find, lock and prepare what it likes meanwhile, but touches an account only after
    the one before has ended: what both share is changed in order, and what the one before paid can
    be spent. The database would let it wait for the accounts that they share, and read each of
    them twice.

    Waiting inside of a transaction, it holds its share of the lock of halts. The one before has
    its own, until it must begin again: then a kill switch may have come between, which waits for
    the share that is held here. So no batch waits in a transaction for a batch that begins again.
    """

    def __init__(self, before: "BatchOrder | None" = None) -> None:
        self._before = before
        self._begun = False
        self.ended = asyncio.Event()
        self.known = asyncio.Event()
        """Set when the batch has ended, or when it is known that it begins again."""

    async def begin(self) -> None:
        """Call before each transaction of the batch; the second waits for the one before, outside.

        From then on the next batch waits outside, too.
        """
        if self._begun:
            self.known.set()
            if self._before is not None:
                await self._before.ended.wait()
        self._begun = True

    async def wait_for_previous(self) -> None:
        """Wait inside a transaction until the batch before has ended."""
        if self._before is not None:
            await self._before.known.wait()
            if not self._before.ended.is_set():
                raise BeginAgainError

    def end(self) -> None:
        """Let the next batch continue, however this one ended."""
        self._before = None
        self.ended.set()
        self.known.set()
