"""Which servers may lose what they have confirmed."""

import pytest

from postdate.core.setting.setting import Settings, Stored
from postdate.database.durability_rule import CommitSafety, Durability
from postdate.words.error import Code


@pytest.mark.parametrize(
    "kept",
    [
        Durability(),
        Durability(standbys=1, synchronous_standby_names="one"),
        Durability(standbys=1, synchronous_standby_names="one", synchronous_commit="remote_apply"),
        Durability(synchronous_commit="local"),
    ],
)
def test_a_server_that_keeps_what_it_confirms_is_safe(kept: Durability) -> None:
    assert kept.weakness() is None


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        (Durability(fsync=False), "fsync"),
        (Durability(full_page_writes=False), "full_page_writes"),
        (Durability(synchronous_commit="off"), "synchronous_commit"),
        (Durability(standbys=1), "asynchronous"),
        (Durability(synchronous_standby_names="one", synchronous_commit="local"), "local"),
    ],
)
def test_a_server_that_may_lose_a_commit_is_named_and_refused(lost: Durability, named: str) -> None:
    settings = Settings()
    safety = CommitSafety(settings)
    assert safety.refusal() is None
    safety.replace(lost)
    assert named in (safety.weakness() or "")
    refusal = safety.refusal()
    assert refusal is not None
    assert (refusal.code, refusal.status) == (Code.COMMITS_NOT_DURABLE, 503)
    name = "payment.unsafe_commits"
    settings.replace({(0, name): Stored(0, name, "accept")})
    assert safety.refusal() is None
