"""Turns of keys: what one process remembers of the keys of a lane's bucket that have due jobs.

A walk over the due timers finds the keys, once for each of them: afterwards a key's jobs are found
by the key, so that a backlog that may not start is never walked again. Every key waits in line; one
at its limit waits aside until one of its jobs ends here, or until it is asked about again. This is
memory alone: what may start is decided in the database, under a lock, each time.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

MAX_KEYS: Final = 200
"""The most keys of one claim."""

ASIDE_SECONDS: Final = 1.0
MAX_ASIDE_SECONDS: Final = 10.0
"""How long a key at its limit waits for a job of another process to end: longer each time."""

WALK_SECONDS: Final = 0.02
"""How long a walk rests: where nothing may start, it meets the latest timers repeatedly."""

BUSY_WALK_SECONDS: Final = 0.2
LONG_WALK_SECONDS: Final = 5.0
"""How long a walk rests while keys are in line, or while enough of them wait for their turn."""

MAX_TOKENS: Final = 1000
"""Of how many keys without due jobs it is remembered from which claim on to count."""

CLOCK_MARGIN: Final = 60_000 * 4096
"""How far below the first token a count begins: the clock of the database may have gone back."""

NEVER: Final = float("inf")


class KeySeen(NamedTuple):
    """A key that a walk has met, and its first due timer; some lease of it may have run out."""

    key_id: int
    due_at: datetime
    subject: UUID
    lost: bool


TimerPosition = tuple[datetime, UUID]
"""A timer among those of its lane's bucket."""


class KeyWalk(NamedTuple):
    """The keys that a walk has met at an instant, and where it goes on; None at the end."""

    seen: list[KeySeen]
    at: datetime
    end: TimerPosition | None


class KeyAnswer(NamedTuple):
    """What may start of a key, and what its other jobs wait for."""

    key_id: int
    lost: Sequence[UUID]
    fresh: Sequence[UUID]
    surplus: Sequence[UUID]
    first_token: int | None
    more: bool
    at_limit: bool
    wait_seconds: float | None
    counted: bool

    @property
    def subjects(self) -> list[UUID]:
        """Return the jobs to claim."""
        return [*self.lost, *self.fresh, *self.surplus]


@dataclass(slots=True, eq=False)
class KeyState:
    """A key with due jobs. `low` is where its waiting jobs begin: below are only dead rows."""

    key_id: int
    low: tuple[datetime, UUID]
    low_token: int = 0
    lost: bool = False
    # When it is in line again; 0 while it is in line or being claimed.
    aside_until: float = 0.0
    at_limit: bool = False
    vain: int = 0
    quota: int = 0


@dataclass(slots=True, eq=False)
class KeyRotation:
    """The keys of one (bucket, lane). Times without a date are this node's monotonic clock."""

    weights: Mapping[int, int] = field(default_factory=dict)
    # Where the walk under way goes on; None at its end.
    walk: TimerPosition | None = None
    walked_at: float = -NEVER
    # The database's time by which every key with a due job is known; None while a walk goes on.
    known_until: datetime | None = None
    # Another claim had the lock.
    locked: bool = False
    _keys: dict[int, KeyState] = field(default_factory=dict)
    _line: deque[KeyState] = field(default_factory=deque)
    _line_since: float = NEVER
    _aside: list[tuple[float, int, KeyState]] = field(default_factory=list)
    _tokens: dict[int, int] = field(default_factory=dict)
    _order: "itertools.count[int]" = field(default_factory=itertools.count)
    _refunds: dict[int, int] = field(default_factory=dict)
    _began: datetime | None = None
    # How many of the keys that were in line after the last walk have not had their turn.
    _pass_left: int = 0

    def __len__(self) -> int:
        return len(self._keys)

    def forget(self) -> None:
        """Forget every key, because it is unknown what has become of a claim."""
        self._keys.clear()
        self._line.clear()
        self._aside.clear()
        self._tokens.clear()
        self.walk = self.known_until = self._began = None
        self._line_since, self.walked_at = NEVER, -NEVER

    def ready_at(self) -> float:
        """Return since when, or from when on, there is something to ask for."""
        if self.walk is not None:
            return self.walked_at
        while self._aside and self._aside[0][2].aside_until != self._aside[0][0]:
            heapq.heappop(self._aside)
        return min(self._line_since, self._aside[0][0] if self._aside else NEVER)

    def first_due(self) -> datetime | None:
        """Return when the next job of the key was due whose turn is first."""
        return self._line[0].low[0] if self._line else None

    def walk_at(self) -> float:
        """Return when the next walk may begin: a key that it finds waits in line anyway."""
        if len(self._line) >= MAX_KEYS and self._pass_left > 0:
            return self.walked_at + LONG_WALK_SECONDS
        if self.walk is not None:
            return self.walked_at
        return self.walked_at + (BUSY_WALK_SECONDS if self._line else WALK_SECONDS)

    def learn_walk(self, found: KeyWalk, now: float) -> None:
        """Put the keys of a walk in line."""
        self._began = found.at if self.walk is None else self._began
        self.walk, self.walked_at = found.end, now
        self.known_until = self._began if found.end is None else None
        for each in found.seen:
            state = self._keys.get(each.key_id)
            if state is None:
                token = self._tokens.pop(each.key_id, 0)
                state = KeyState(each.key_id, (each.due_at, each.subject), token)
                self._keys[each.key_id] = state
                self._queue(state, now)
            else:
                state.low = min(state.low, (each.due_at, each.subject))
            if each.lost:
                state.lost = True
                self._wake(state, now)
        self._pass_left = len(self._line)

    def choose(self, count: int, now: float) -> list[KeyState]:
        """Take the next keys out of the line, each with its part of `count` jobs."""
        self._come_back(now)
        states = [self._line.popleft() for _ in range(min(len(self._line), count, MAX_KEYS))]
        weights = [self.weights.get(state.key_id, 1) for state in states]
        rounds = max(1, count // max(1, sum(weights)))
        chosen = []
        for state, weight in zip(states, weights, strict=True):
            state.quota = min(count, weight * rounds)
            count -= state.quota
            if state.quota:
                chosen.append(state)
        self._line.extendleft(reversed(states[len(chosen) :]))
        self._line_since = now if self._line else NEVER
        self._pass_left -= len(chosen)
        return chosen

    def put_back(self, states: Sequence[KeyState], now: float) -> None:
        """Put keys in front again, because another claim had the lock."""
        self._line.extendleft(reversed(states))
        self._line_since = now if self._line else NEVER

    def learn(
        self,
        state: KeyState,
        answer: KeyAnswer,
        taken: Mapping[UUID, tuple[datetime, int]],
        now: float,
    ) -> None:
        """Learn what was claimed of a key: the instant and the token of each job."""
        claimed = [taken[each] for each in answer.subjects if each in taken]
        if answer.counted:
            tokens = [token for _, token in claimed]
            if answer.first_token is not None:
                tokens.append(answer.first_token)
            state.low_token = max(0, min(tokens) - CLOCK_MARGIN) if tokens else state.low_token
        if answer.fresh and all(each in taken for each in answer.fresh):
            last = answer.fresh[-1]
            state.low = taken[last][0], last
        missed = len(claimed) < len(answer.subjects)
        state.vain = 0 if claimed else state.vain + 1
        state.lost = missed and state.lost
        self._requeue(state, answer, now, missed=missed)

    def _requeue(self, state: KeyState, answer: KeyAnswer, now: float, *, missed: bool) -> None:
        """Put a key at the end of the line, aside, or away when it has no due job left."""
        state.at_limit = answer.more and answer.at_limit
        if missed:
            self._put_aside(state, now + ASIDE_SECONDS / 10)
        elif not answer.more and not answer.surplus:
            self._drop(state)
        elif state.at_limit:
            rest = min(ASIDE_SECONDS * 2 ** min(state.vain, 10), MAX_ASIDE_SECONDS)
            self._put_aside(state, now + rest)
        elif answer.wait_seconds is not None:
            self._put_aside(state, now + answer.wait_seconds)
        else:
            self._queue(state, now)

    def freed(self, key_id: int, now: float) -> bool:
        """Put a key in line again: one of its jobs has ended; return whether it waited for that."""
        state = self._keys.get(key_id)
        if state is None or not state.at_limit:
            return False
        self._wake(state, now)
        return True

    def retry(self, now: float, count: int | None = None) -> None:
        """Ask again about some keys, or all: jobs of other processes may have ended."""
        for _, _, state in self._aside[:count]:
            self._wake(state, now)

    def refund(self, key_id: int, now: float) -> bool:
        """Give back a start that did not happen, by the next claim; return whether it is wanted."""
        self._refunds[key_id] = self._refunds.get(key_id, 0) + 1
        state = self._keys.get(key_id)
        if state is not None:
            self._wake(state, now)
        return state is not None

    def take_refunds(self) -> dict[int, int]:
        """Take the starts to give back; if that fails they are lost."""
        found, self._refunds = self._refunds, {}
        return found

    def _queue(self, state: KeyState, now: float) -> None:
        state.aside_until = 0.0
        if not self._line:
            self._line_since = now
        self._line.append(state)

    def _put_aside(self, state: KeyState, until: float) -> None:
        state.aside_until = until
        heapq.heappush(self._aside, (until, next(self._order), state))

    def _wake(self, state: KeyState, now: float) -> None:
        if state.aside_until:
            state.vain = 0
            self._queue(state, now)

    def _come_back(self, now: float) -> None:
        while self._aside and self._aside[0][0] <= now:
            until, _, state = heapq.heappop(self._aside)
            if state.aside_until == until:
                self._queue(state, until)

    def _drop(self, state: KeyState) -> None:
        del self._keys[state.key_id]
        if state.low_token:
            self._tokens[state.key_id] = state.low_token
            if len(self._tokens) > MAX_TOKENS:
                del self._tokens[next(iter(self._tokens))]
