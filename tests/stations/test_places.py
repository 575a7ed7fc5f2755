"""A settler's low-water marks never hide a payment, however much of a look was cut off."""

from datetime import timedelta

from postdate.core.ids import BUCKETS, new_id
from postdate.payment.store.settlement import Candidate
from postdate.runtime.low_water import MARGIN
from postdate.runtime.share import AFAR_SECONDS, OTHERS_SECONDS
from postdate.settlement.bucket_marks import BucketMarks
from postdate.timer.timer import LONG_AGO

AT = LONG_AGO + timedelta(days=9999)


def _candidate(bucket: int, ago: float) -> Candidate:
    return Candidate(AT - timedelta(seconds=ago), new_id(bucket, 1), bucket)


def test_a_whole_look_raises_every_mark() -> None:
    places = BucketMarks()
    places.looks()
    assert places.learn_seen(AT, [_candidate(3, 50.0)])
    lows = {look.bucket: look.low for look in places.looks()}
    assert lows[3] == AT - timedelta(seconds=50)
    assert {lows[b] for b in range(BUCKETS) if b != 3} == {AT - MARGIN}


def test_behind_a_look_that_was_cut_nothing_is_hidden() -> None:
    places = BucketMarks()
    places.looks()
    assert places.learn_seen(AT, [_candidate(3, 50.0), _candidate(5, 40.0)], cut=True)
    lows = {look.bucket: look.low for look in places.looks()}
    assert lows[3] == AT - timedelta(seconds=50)
    # The buckets that gave nothing may hold what is due right after the last that was seen.
    assert {lows[b] for b in range(BUCKETS) if b != 3} == {AT - timedelta(seconds=40)}


def test_a_settler_reaches_to_another_database_node_only_when_it_has_nothing_to_do() -> None:
    places = BucketMarks()
    places.own, places.afar = frozenset({1, 2}), frozenset({5, 6})

    def graces() -> dict[int, float]:
        return {look.bucket: look.grace for look in places.looks() if look.bucket in {1, 4, 5}}

    busy = {1: 0.0, 4: OTHERS_SECONDS, 5: AFAR_SECONDS}
    assert graces() == busy
    assert places.learn_seen(AT, [_candidate(5, 60.0)])
    assert graces() == {1: 0.0, 4: OTHERS_SECONDS, 5: OTHERS_SECONDS}
    assert places.learn_seen(AT, [_candidate(5, 60.0), _candidate(1, 1.0)])
    assert graces() == busy


def test_the_mark_of_a_bucket_afar_stays_below_what_was_not_looked_at() -> None:
    places = BucketMarks()
    places.own, places.afar = frozenset({1, 2}), frozenset({5, 6})
    places.looks()
    assert places.learn_seen(AT, [])
    lows = {look.bucket: look.low for look in places.looks()}
    assert lows[5] == AT - MARGIN - timedelta(seconds=AFAR_SECONDS)
    assert lows[1] == AT - MARGIN
