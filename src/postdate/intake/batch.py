"""Batches: each item is decoded by itself, so that a bad one does not spoil the others."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from postdate.core import any_json
from postdate.http import problem
from postdate.http.body_problem import ExplanationBudget, find_problems
from postdate.http.endpoint import Reply
from postdate.intake.idempotency import Refused
from postdate.intake.pipeline import Accepted
from postdate.words.error import Refusal

T = TypeVar("T")
R = TypeVar("R")


def item_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Describe an item that stands in the body as raw JSON."""
    _, components = msgspec.json.schema_components(
        [kind], ref_template="#/components/schemas/{name}"
    )
    schema: dict[str, Any] = components[kind.__name__]
    return schema


def decoded(decoder: msgspec.json.Decoder[T], items: Iterable[msgspec.Raw]) -> list[T | Refusal]:
    """Decode each item, or say what is wrong with it."""
    found: list[T | Refusal] = []
    budget = ExplanationBudget()
    for item in items:
        try:
            found.append(decoder.decode(item))
        except msgspec.ValidationError as error:
            looked = budget.admits(item)
            problems = find_problems(any_json.decode(item), decoder.type, budget) if looked else ()
            found.append(problem.undecodable(error, problems))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            found.append(problem.undecodable(error))
    return found


def merge_results(items: Sequence[T | Refusal], results: Iterable[R]) -> Iterator[R | Refusal]:
    """Return the results of the good items and the refusals of the others, in the order asked."""
    coming = iter(results)
    for item in items:
        yield item if isinstance(item, Refusal) else next(coming)


def _outcome(noun: str, result: Accepted | Refused | Refusal, request_id: str) -> dict[str, Any]:
    refusal = result.refusal if isinstance(result, Refused) else result
    if isinstance(refusal, Refusal):
        body = msgspec.Raw(problem.encode(refusal, request_id))
        outcome = {"status": refusal.status, "problem": body}
    else:
        outcome = {"status": refusal.status, noun: refusal.body}
    replayed = not isinstance(result, Refusal) and result.replayed
    return outcome | {"replayed": True} if replayed else outcome


def batch_reply(
    noun: str, results: Iterable[Accepted | Refused | Refusal], request_id: str
) -> Reply:
    """Answer with one outcome for each item, and how many of each kind there are."""
    outcomes = [_outcome(noun, result, request_id) for result in results]
    many = sum("problem" in outcome for outcome in outcomes)
    counts = {"accepted": len(outcomes) - many, "refused": many}
    return Reply(msgspec.json.encode({**counts, "outcomes": outcomes}))
