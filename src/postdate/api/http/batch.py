"""Batches: each item is decoded by itself, so that a bad one does not spoil the others."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from postdate.api.http import problem
from postdate.api.http.body_problem import ExplanationBudget, find_problems
from postdate.api.http.endpoint import Reply
from postdate.model.error import Refusal

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
            problems = (
                find_problems(msgspec.json.decode(item), decoder.type, budget) if looked else ()
            )
            found.append(problem.undecodable(error, problems))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            found.append(problem.undecodable(error))
    return found


def merge_results(items: Sequence[T | Refusal], results: Iterable[R]) -> Iterator[R | Refusal]:
    """Return the results of the good items and the refusals of the others, in the order asked."""
    coming = iter(results)
    for item in items:
        yield item if isinstance(item, Refusal) else next(coming)


def accepted(
    noun: str, status: int, body: msgspec.Struct, *, replayed: bool = False
) -> dict[str, Any]:
    """Return the outcome of an accepted item; it is encoded with the whole reply."""
    outcome = {"status": status, noun: body}
    return outcome | {"replayed": True} if replayed else outcome


def refused(refusal: Refusal, request_id: str, *, replayed: bool = False) -> dict[str, Any]:
    """Return the outcome of a refused item."""
    body = msgspec.Raw(problem.encode(refusal, request_id))
    outcome = {"status": refusal.status, "problem": body}
    return outcome | {"replayed": True} if replayed else outcome


def batch_reply(outcomes: Sequence[dict[str, Any]]) -> Reply:
    """Answer with one outcome for each item, and how many of each kind there are."""
    many = sum("problem" in outcome for outcome in outcomes)
    counts = {"accepted": len(outcomes) - many, "refused": many}
    return Reply(msgspec.json.encode({**counts, "outcomes": outcomes}))
