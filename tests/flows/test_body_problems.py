"""A body that is refused is told all that is wrong with it, within bounds."""

from typing import Any

import msgspec
import pytest

from postdate.http.body_problem import MAX_BYTES, MAX_PROBLEMS, MAX_SUGGESTIONS
from postdate.http.request_reader import decode, query
from postdate.intake.batch import decoded
from postdate.job.api.job import JobQuery
from postdate.job.spec.job import JobSpec
from postdate.payment.spec.payment import PaymentOrder
from postdate.schedule.spec.spec import ScheduleSpec
from postdate.words.error import Code, Refusal, RefusedError

GOOD = {"destination": {"type": "worker"}}


def refused(body: Any, shape: Any = JobSpec) -> Refusal:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    with pytest.raises(RefusedError) as caught:
        decode(raw, msgspec.json.Decoder(shape), 32)
    return caught.value.refusal


def problems(refusal: Refusal) -> dict[str, str]:
    return {each.field: each.detail for each in refusal.extra["problems"]}


def test_every_problem_is_told_at_once() -> None:
    refusal = refused({
        "destinaton": {"type": "worker"},
        "run_at": "tomorrow",
        "retry": {"max_attempts": 0, "backoff": "exponental"},
        "lane": 5,
    })  # fmt: skip
    assert refusal.code is Code.UNKNOWN_FIELD
    assert refusal.field == "destinaton"
    assert problems(refusal) == {
        "destinaton": "`destinaton` is not known. Did you mean `destination`?",
        "destination": "`destination` is required.",
        "run_at": "`run_at`: Invalid RFC3339 encoded datetime.",
        "retry.max_attempts": "`retry.max_attempts`: Expected `int` >= 1.",
        "retry.backoff": "`retry.backoff`: `exponental` is not one of exponential, fixed, linear. "
        "Did you mean `exponential`?",
        "lane": "`lane`: Expected `str`, got `int`.",
    }
    assert refusal.detail.endswith("And 1 more.")


@pytest.mark.parametrize(
    ("body", "shape", "field", "detail"),
    [
        ({"destination": {"type": "webhok"}}, JobSpec, "destination.type",
         ("`destination.type`: `webhok` is not one of webhook, queue, worker. "
          "Did you mean `webhook`?")),
        ({"destination": {}}, JobSpec, "destination.type",
         "`destination.type` is one of webhook, queue, worker."),
        ({"destination": {"type": "webhook", "ulr": "x"}}, JobSpec, "destination.ulr",
         "`destination.ulr` is not known. Did you mean `url`?"),
        ({"destination": 5}, JobSpec, "destination",
         "`destination`: Expected `object`, got `int`."),
        ({**GOOD, "zebra": 1}, JobSpec, "zebra", "`zebra` is not known."),
        ({"from_account_id": "a", "to_account_id": "b", "amount": 25.5}, PaymentOrder, "amount",
         "`amount`: Expected `int`, got `float`."),
        ({"cron": "* * * * *", "template": {}, "misfire": {"policy": "skp"}}, ScheduleSpec,
         "misfire.policy",
         "`misfire.policy`: `skp` is not one of fire_once, fire_all, skip. Did you mean `skip`?"),
    ],
    ids=str,
)  # fmt: skip
def test_a_problem_names_its_field_and_what_is_allowed(
    body: Any, shape: Any, field: str, detail: str
) -> None:
    refusal = refused(body, shape)
    assert (refusal.field, refusal.detail) == (field, detail)
    assert problems(refusal) == {field: detail}


def test_a_value_that_is_not_allowed_comes_with_those_that_are() -> None:
    (problem,) = refused({**GOOD, "retry": {"backoff": "fixd"}}).extra["problems"]
    assert problem.allowed == ["exponential", "fixed", "linear"]
    assert problem.nearest == "fixed"


@pytest.mark.parametrize("body", [b"[]", b"5", b'"x"', b"null"])
def test_what_is_no_object_is_one_problem(body: bytes) -> None:
    refusal = refused(body)
    assert refusal.field is None
    assert refusal.detail.startswith("Expected `object`, got ")


@pytest.mark.parametrize("payload", [{"a": 1}, [{"a": 1}], "text", 1, None])
def test_a_good_payload_is_no_problem_beside_a_bad_field(payload: Any) -> None:
    refusal = refused({**GOOD, "payload": payload, "dely_seconds": 5})
    assert list(problems(refusal)) == ["dely_seconds"]


def test_a_payload_is_nobody_elses_business() -> None:
    refusal = refused({**GOOD, "payload": [{"destinaton": 1}], "x": 1})
    assert list(problems(refusal)) == ["x"]


def test_a_hostile_body_is_explained_within_bounds() -> None:
    many = {f"destinatio{number}": 1 for number in range(2000)}
    found = refused(many).extra["problems"]
    assert len(found) == MAX_PROBLEMS
    assert sum(each.nearest is not None for each in found) == MAX_SUGGESTIONS
    large = {**many, "payload": "x" * MAX_BYTES}
    assert refused(large).extra == {}
    assert refused(large).code is Code.UNKNOWN_FIELD


def test_all_items_of_a_batch_share_the_bounds() -> None:
    bad = msgspec.Raw(msgspec.json.encode({f"x{number}": 1 for number in range(15)}))
    outcomes = decoded(msgspec.json.Decoder(JobSpec), [bad] * 100)
    assert all(isinstance(each, Refusal) and each.field for each in outcomes)
    explained = [
        len(each.extra.get("problems", ())) for each in outcomes if isinstance(each, Refusal)
    ]
    assert explained[:3] == [16, 4, 0]
    assert sum(explained) == MAX_PROBLEMS


def test_a_query_is_told_all_its_problems_too() -> None:
    with pytest.raises(RefusedError) as caught:
        query(b"stats=PENDING&status=PENDNG&limit=x", JobQuery)
    assert problems(caught.value.refusal) == {
        "stats": "`stats` is not known. Did you mean `status`?",
        "status": "`status`: `PENDNG` is not one of PENDING, READY, RUNNING, COMPLETED, FAILED, "
        "CANCELLED, UNKNOWN. Did you mean `PENDING`?",
        "limit": "`limit`: Expected `int`, got `str`.",
    }
