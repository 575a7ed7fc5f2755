from postdate.lane.spec import buckets, kind_of


def test_lanes_of_workers_are_pulled_and_all_others_pushed() -> None:
    assert [kind_of(each) for each in ("worker", "webhook", "queue")] == ["pull", "push", "push"]


def test_a_lane_keeps_its_buckets_when_it_is_widened() -> None:
    narrow, wide = buckets(16, 4), buckets(16, 16)
    assert len(set(narrow)) == 4
    assert set(narrow) < set(wide)
    assert buckets(17, 4) != narrow
