from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postdate.core.ids import (
    BUCKETS,
    HOLD_MS,
    RisingIds,
    bucket_of,
    floor_id,
    hash_bucket,
    new_id,
    new_ids,
    subject_id,
    unix_ms_of,
)
from postdate.lane.spec import buckets

MS = st.integers(min_value=0, max_value=2**48 - 1)
BUCKET = st.integers(min_value=0, max_value=BUCKETS - 1)


@given(BUCKET, MS)
def test_an_id_carries_its_bucket_and_time(bucket: int, ms: int) -> None:
    made = new_id(bucket, ms)
    assert (bucket_of(made), unix_ms_of(made), made.version) == (bucket, ms, 7)
    assert made.variant == "specified in RFC 4122"


@given(BUCKET, MS, MS)
def test_ids_sort_by_time(bucket: int, one: int, other: int) -> None:
    if one != other:
        assert (new_id(bucket, one) < new_id(bucket, other)) == (one < other)
    assert floor_id(one) <= new_id(bucket, one)


@given(st.lists(BUCKET, max_size=40), MS)
def test_a_set_of_ids_is_like_single_ones_and_rises_within_a_bucket(
    chosen: list[int], ms: int
) -> None:
    made = new_ids(chosen, ms)
    assert [bucket_of(one) for one in made] == chosen
    assert {(unix_ms_of(one), one.version) for one in made} <= {(ms, 7)}
    assert {one.variant for one in made} <= {"specified in RFC 4122"}
    assert len(set(made)) == len(made)
    for bucket in set(chosen):
        own = [one for one in made if bucket_of(one) == bucket]
        assert own == sorted(own)


@given(st.lists(st.tuples(BUCKET, st.integers(0, 2)), min_size=1, max_size=60))
def test_ids_rise_from_call_to_call_though_the_clock_stands_or_steps_back(
    calls: list[tuple[int, int]],
) -> None:
    ids, now, made = RisingIds(), 1_800_000_000_000, []
    for bucket, back in calls:
        made += ids.draw([bucket, bucket], now - back * HOLD_MS // 2)
    assert [bucket_of(each) for each in made] == [bucket for bucket, _ in calls for _ in range(2)]
    assert {(each.version, each.variant) for each in made} == {(7, "specified in RFC 4122")}
    assert {unix_ms_of(each) - now for each in made} <= {0, -HOLD_MS // 2, -HOLD_MS}
    # They rise whatever the bucket but for its bits, so also behind a subject that lies ahead.
    tails = [each.int & (1 << 62) - 1 for each in made]
    assert tails == sorted(set(tails))
    for bucket in {bucket for bucket, _ in calls}:
        own = [each for each in made if bucket_of(each) == bucket]
        assert own == sorted(own)


def test_ids_follow_a_clock_that_was_set_back() -> None:
    """Two databases of one process, or one that was restored: neither gets ids of the other."""
    ids, now, day = RisingIds(), 1_800_000_000_000, 86_400_000
    times = [now, now - day, now, now - HOLD_MS - 1]
    assert [unix_ms_of(ids.draw([5], each)[0]) for each in times] == times


def test_ids_rise_when_their_last_bits_are_used_up() -> None:
    ids, now = RisingIds(), 1_800_000_000_000
    ids.tail = (1 << 62) - (3 << 32)
    made = [each for _ in range(40) for each in ids.draw([7], now)]
    assert made == sorted(set(made))
    assert {unix_ms_of(each) - now for each in made} == {0, 1}
    assert {each.variant for each in made} == {"specified in RFC 4122"}


def test_two_processes_begin_apart() -> None:
    one, other = (RisingIds().draw([0], 0)[0] for _ in range(2))
    assert one.int >> 33 != other.int >> 33


@pytest.mark.parametrize("bucket", [-1, BUCKETS])
def test_a_bucket_out_of_range_is_a_mistake(bucket: int) -> None:
    with pytest.raises(ValueError, match="is not in"):
        new_id(bucket, 0)


@given(st.integers(min_value=0, max_value=2**31 - 1), st.text(max_size=64))
def test_a_named_subject_is_stable_and_in_the_bucket_of_its_name(tenant: int, name: str) -> None:
    made = subject_id(tenant, name)
    assert made == subject_id(tenant, name)
    assert (bucket_of(made), made.version) == (hash_bucket(tenant, name), 8)


def test_names_spread_over_the_buckets() -> None:
    counts = Counter(hash_bucket(1, f"account-{n}") for n in range(64_000))
    assert len(counts) == BUCKETS
    assert max(counts.values()) < 1.2 * 1000


def test_the_bucket_of_a_name_never_changes() -> None:
    # Stored rows depend on these values.
    assert [hash_bucket(1, name) for name in ("alice", "bob", "")] == [53, 39, 42]
    assert bucket_of(UUID("01a1e1c8-dd23-7001-bd68-723753d52271")) == 1


def test_a_lane_that_widens_keeps_its_buckets() -> None:
    for lane_id in range(16, 80):
        narrow, wide = buckets(1, f"lane-{lane_id}", 8), buckets(1, f"lane-{lane_id}", 16)
        assert set(narrow) < set(wide)
        assert len(buckets(1, f"lane-{lane_id}", BUCKETS)) == BUCKETS
