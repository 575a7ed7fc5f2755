"""Answer requests under a key: the first time, and every time after."""

from typing import Final

from postdate.api import problem
from postdate.api.route import Reply
from postdate.intake.answers import Answer
from postdate.model.errors import RefusedError

REPLAYED: Final = {"Idempotency-Replayed": "true"}


def reply(answer: Answer, request_id: str) -> Reply:
    """Turn an answer into a reply that says whether it was given before."""
    refusal = answer.refusal
    if refusal is None:
        return Reply(answer.response, answer.status, REPLAYED if answer.replayed else {})
    if not answer.replayed:
        raise RefusedError(refusal)
    headers = REPLAYED | {"Content-Type": problem.MEDIA_TYPE.decode()}
    return Reply(problem.encode(refusal, request_id), answer.status, headers)
