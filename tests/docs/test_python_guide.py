"""The blocks of the Python guide are run one after the other, against a real server."""

import re
import time
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from postdate.client import UnreachableError
from postdate.client.pytest_plugin import PostdateServer
from postdate.words.signature import sign

GUIDE = Path(__file__).parents[2] / "docs/guides/python.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
KEY = b"s" * 32


class EnoughError(Exception):
    """Ends a loop that the guide leaves open."""


@pytest.fixture
def known(postdate_server: PostdateServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what the guide takes for granted: its reader's own names."""
    monkeypatch.setenv("POSTDATE_URL", postdate_server.url)
    monkeypatch.setenv("POSTDATE_API_KEY", postdate_server.key)
    with postdate_server.client() as client:
        for name in ("alice", "bob"):
            client.accounts.create(account_id=name, idempotency_key=f"guide-{name}")
        client.accounts.adjust("alice", amount=10_000, reason="x", idempotency_key="guide-seed")
        client.jobs.create(
            destination={"type": "worker"},
            lane="mail",
            payload={"to": "ada"},
            metadata={"kind": "send-mail"},
        )
    stamp = int(time.time())
    found: dict[str, Any] = {
        "UnreachableError": UnreachableError,
        "saved": None,
        "request_body": b"{}",
        "request_headers": {
            "webhook-id": "job",
            "webhook-timestamp": str(stamp),
            "webhook-signature": sign([KEY], "job", stamp, b"{}"),
        },
        "secret": "whsec_" + b64encode(KEY).decode(),
    }
    found["delivered"] = delivered = []

    def deliver(to: str, token: int) -> str:
        delivered.append((to, token))
        found["worker"].stop()
        return "sent"

    def handle(event: Any) -> None:
        found["handled"] = event
        raise EnoughError

    return found | {"deliver": deliver, "handle": handle, "known": found}


def test_every_block_of_the_guide_runs(
    known: dict[str, Any], postdate_server: PostdateServer
) -> None:
    blocks = BLOCK.findall(GUIDE.read_text())
    assert len(blocks) == 8
    own = known.pop("known")
    for block in blocks:
        # Thirty days are long.
        code = block.replace("timedelta(days=30)", "timedelta(seconds=1)")
        run_forever = "worker.run_forever()"
        for part in (code.removesuffix(f"{run_forever}\n"), run_forever):
            if part in code:
                try:
                    exec(part, known)
                except EnoughError:
                    continue
                own.update(worker=known.get("worker"))
    assert known["paid"].status == "COMPLETED"
    assert own["handled"].type.startswith("payment.")
    assert known["delivery"].id == "job"
    assert [to for to, _ in own["delivered"]] == ["ada"]
    known["test_the_reminder"](postdate_server)
