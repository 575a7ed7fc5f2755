"""Peers are measured in processes of their own."""

import io
import sys
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from postdate_lab.bench import job, peer, testbed
from postdate_lab.bench.peers import contract
from postdate_lab.bench.peers.contract import PeerOrder, PeerRates


def test_a_peer_reads_its_order_and_answers_with_its_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    order = PeerOrder(dsn="postgresql://", count=7, directory="/tmp")
    said = io.BytesIO()
    given = SimpleNamespace(buffer=io.BytesIO(msgspec.json.encode(order)))
    monkeypatch.setattr(sys, "stdin", given)
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=said))
    contract.answer(lambda asked: PeerRates(accepted=asked.count, executed=2.0))
    last = said.getvalue().rstrip().rpartition(b"\n")[2]
    assert msgspec.json.decode(last, type=PeerRates) == PeerRates(accepted=7.0, executed=2.0)


def test_calls_of_a_thousand_make_up_the_whole() -> None:
    assert contract.chunks(2500) == [1000, 1000, 500]
    assert contract.chunks(0) == []


def test_a_missing_peer_is_named_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(peer.PEERS, "pgqueuer", peer.Peer("no_such_package", 10, "bench"))
    assert "pgqueuer" not in peer.installed()
    assert "pgqueuer is skipped: `uv sync --group bench` brings it" in capsys.readouterr().err


def test_without_a_peer_its_goal_is_missed() -> None:
    figures = job._compared("execute", {"postdate": [30.0], "slow": [10.0]}, {"gone": 2, "slow": 2})
    assert [(each.what, each.held) for each in figures[2:]] == [
        ("postdate : gone", False),
        ("postdate : slow", True),
    ]


@pytest.mark.parametrize(
    ("error", "why"),
    [(TimeoutError(), "it took too long"), (RuntimeError("dbos failed: no"), "dbos failed: no")],
)
async def test_a_peer_that_fails_is_left_out(
    error: Exception, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fails(*_: object) -> PeerRates:
        raise error

    monkeypatch.setattr(peer, "_measure", fails)
    at = cast("testbed.Testbed", None)
    assert await peer.measure(at, "dbos", 10) is None
    assert f"dbos is left out: {why}" in capsys.readouterr().err


@pytest.mark.soak
async def test_every_installed_peer_gives_its_rates() -> None:
    async with testbed.testbed() as at:
        for name in peer.installed():
            rates = await peer.measure(at, name, 50)
            assert rates is not None, name
            assert rates.accepted > 0, name
            assert rates.executed > 0, name
