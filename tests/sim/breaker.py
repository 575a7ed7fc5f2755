"""Histories of a circuit breaker: many calls at once, a receiver that falls and rises; from a seed.

Real: the breakers. Made up: the time, the calls and what the receiver answers. A call that is not
let through waits as long as it was told and asks again, as a job does that was throttled.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from postdate.delivery.breaker import MAX_OPEN_SECONDS, RAMP, Breaker, Breakers, Health
from postdate.destination.spec.trouble import DestinationKey
from sim.loop import wait

KEY: DestinationKey = (1, "https://example.com")
CALL_SECONDS = 5.0
CALM_SECONDS = 3 * MAX_OPEN_SECONDS
"""Within how long after the receiver is well again everything must have passed."""


class BreakerHistory:
    """One run: some callers, a receiver whose health changes, calls that are given up."""

    def __init__(self) -> None:
        self.breakers = Breakers()
        self.problems: list[str] = []
        self.faults: Counter[str] = Counter()
        self.health = Health.UP
        self.probing = 0
        self.callers = random.choice((1, 4, 12, 40))

    @property
    def _breaker(self) -> Breaker | None:
        return self.breakers._breakers.get(KEY)

    async def run(self) -> "BreakerHistory":
        calling = [asyncio.create_task(self._call()) for _ in range(self.callers)]
        for _ in range(random.randint(1, 6)):
            self.health = random.choice(list(Health))
            self.faults[self.health] += 1
            await wait(random.uniform(0.1, 40.0))
        self.health = Health.UP
        calm = asyncio.get_running_loop().time()
        await wait(CALM_SECONDS + CALL_SECONDS)
        if self.breakers.states(_now())["open"] or self.breakers.reports(_now()):
            self.problems.append("it is still open though the receiver is well")
        for each in calling:
            each.cancel()
        await asyncio.gather(*calling, return_exceptions=True)
        if (left := self._breaker) is not None and left._probes:
            self.problems.append(f"{left._probes} probes keep their places")
        self._look(calm)
        return self

    def _look(self, calm: float) -> None:
        if self.last_answer < calm + CALM_SECONDS / 2:
            self.problems.append("nobody was let through again")

    last_answer = 0.0

    async def _call(self) -> None:
        """Call again and again; now and then a call is given up in its middle."""
        while True:
            admitted_at = _now()
            if seconds := self.breakers.admit(KEY, admitted_at):
                if not 0 < seconds <= MAX_OPEN_SECONDS:
                    self.problems.append(f"told to come back in {seconds} s")
                await wait(seconds * random.uniform(1.0, 1.5))
                continue
            self._check_probes()
            health, asked = self.health, random.uniform(0.0, 90.0)
            try:
                await wait(random.uniform(0.001, CALL_SECONDS))
                if random.random() < 0.05:
                    health = Health.SILENT
                    self.faults["given up"] += 1
            except asyncio.CancelledError:
                self.breakers.record(KEY, admitted_at, _now(), Health.SILENT)
                raise
            self.breakers.record(KEY, admitted_at, _now(), health, asked)
            self.last_answer = _now() if health is Health.UP else self.last_answer
            await wait(random.uniform(0.0, 1.0))

    def _check_probes(self) -> None:
        """See that a receiver in trouble gets no more probes at once than it may."""
        breaker = self._breaker
        if breaker is not None and not breaker.closed:
            self.faults["probe"] += 1
            if not 0 < breaker._probes <= breaker._allowance < RAMP:
                self.problems.append(f"{breaker._probes} probes, {breaker._allowance} allowed")


def _now() -> float:
    return asyncio.get_running_loop().time()


@contextmanager
def simulated_calls() -> Iterator[None]:
    """Stand for nothing: the breaker has no store."""
    yield
