"""Operations of dead letters. Written by `make docs` from the endpoints."""

from types import NoneType
from typing import Final

from postdate.client.models.dead_letters import (
    DeadLetter,
    DeadLetterList,
    PurgeOutcome,
    RedriveOutcome,
)
from postdate.client.operation import Operation

LIST_DEAD_LETTERS: Final = Operation("list_dead_letters", "GET", "/dead-letters", DeadLetterList)
SHOW_DEAD_LETTER: Final = Operation("show_dead_letter", "GET", "/dead-letters/{job_id}", DeadLetter)
REDRIVE_DEAD_LETTERS: Final = Operation(
    "redrive_dead_letters", "POST", "/dead-letters/redrive", RedriveOutcome, repeatable=False
)
PURGE_DEAD_LETTERS: Final = Operation(
    "purge_dead_letters", "POST", "/dead-letters/purge", PurgeOutcome, repeatable=False
)
PURGE_DEAD_LETTER: Final = Operation(
    "purge_dead_letter", "DELETE", "/dead-letters/{job_id}", NoneType
)
