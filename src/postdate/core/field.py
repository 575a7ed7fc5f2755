"""Fields that several nouns share: their types, rules, texts and examples, each said once.

`extra` has what a form, a command or a refusal needs besides: `secret` hides a value, `rule` is the
sentence that refuses a wrong one.
"""

import re
from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta

from postdate.core.money import MINOR_UNIT

NAME_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}"
NAME: Final = re.compile(NAME_PATTERN)
NAME_RULE: Final = "A name has 1 to 63 of A-Z a-z 0-9 _ . : - and begins with a letter or digit."

Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=63,
        pattern=rf"^{NAME_PATTERN}$(?!\n)",
        description="The name by which it is known.",
        examples=["orders"],
        extra={"rule": NAME_RULE},
    ),
]
MaxRunning = Annotated[
    Annotated[int, Meta(ge=1, le=1_000_000)] | None,
    Meta(
        description="Maximum at a time, across all nodes; null is no limit.",
        examples=[10],
    ),
]
RatePerSecond = Annotated[
    Annotated[float, Meta(ge=0.001, le=1_000_000)] | None,
    Meta(
        description="Maximum starts per second, across all nodes; null is no limit.",
        examples=[50],
    ),
]
OverlapSeconds = Annotated[
    float,
    Meta(
        ge=0,
        le=30 * 24 * 3600,
        description="How long the previous one stays valid.",
        examples=[3600],
    ),
]
DAY_SECONDS: Final = 24 * 3600

Instant = Annotated[datetime, Meta(tz=True)]
"""An instant of a request: RFC 3339 with a zone."""

Amount = Annotated[int, Meta(description=f"An amount, {MINOR_UNIT}.", examples=[2500])]
NamedCurrency = Annotated[
    str | None,
    Meta(description="What the amounts are counted in; null or absent: unnamed.", examples=["EUR"]),
]
Created = Annotated[
    datetime, Meta(description="When it was created.", examples=["2031-01-01T09:00:00Z"])
]
Changed = Annotated[
    datetime, Meta(description="When it last changed.", examples=["2031-01-02T09:00:00Z"])
]
PausedAt = Annotated[
    datetime | None,
    Meta(
        description="When it was paused; null while it is not.", examples=["2031-01-02T09:00:00Z"]
    ),
]
PausedBy = Annotated[
    str | None,
    Meta(description="Who paused it.", examples=["0198c0de-5a4e-7abc-8def-0123456789ab"]),
]
PausedNote = Annotated[str | None, Meta(description="Why it was paused.", examples=["maintenance"])]
NextCursor = Annotated[
    str | None,
    Meta(
        description="Give it as `cursor` for the next page; null after the last.",
        examples=["MDE5OGMwZGU"],
    ),
]
