"""What a confirmation is about: the facts of a thing that its address names only by an id."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from postdate.console.page_request import PageRequest
from postdate.core.identity import Scope

SubjectFacts = list[tuple[str, str | datetime]]


@dataclass(slots=True, frozen=True)
class Subject:
    """Reads the facts of what an address names, for keys that may read them."""

    scope: Scope
    read: Callable[[PageRequest], Awaitable[SubjectFacts]]

    async def facts(self, request: PageRequest, *, if_possible: bool) -> SubjectFacts:
        """Return the facts; none where the key may not read them, or if they cannot be read."""
        if not request.actor.allows(self.scope):
            return []
        try:
            return await self.read(request)
        except Exception as error:
            if not if_possible:
                raise
            request.refusal_of(error)
            return []
