from postdate.lane.spec import buckets, kind_of


def test_lanes_of_workers_are_pulled_and_all_others_pushed() -> None:
    assert [kind_of(each) for each in ("worker", "webhook", "queue")] == ["pull", "push", "push"]


def test_a_lane_keeps_its_buckets_when_it_is_widened() -> None:
    narrow, wide = buckets(1, "mail", 4), buckets(1, "mail", 16)
    assert len(set(narrow)) == 4
    assert set(narrow) < set(wide)
    assert buckets(1, "post", 4) != narrow
    assert buckets(2, "mail", 4) != narrow
