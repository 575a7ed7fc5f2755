"""The verification code of the guide accepts what is sent, and nothing else."""

import re
import time
from pathlib import Path
from typing import Any

from postdate.words.signature import new_secret, secret_bytes, sign

GUIDE = Path(__file__).parents[2] / "docs/guides/webhooks.md"


def test_the_guide_verifies_what_is_sent() -> None:
    by_client, code = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    verify = names["verify"]
    old, new, body, now = new_secret(), new_secret(), b'{"a": 1}', int(time.time())
    keys = [key for key in map(secret_bytes, (new, old)) if key]
    headers = {
        "webhook-id": "job",
        "webhook-timestamp": str(now),
        "webhook-signature": sign(keys, "job", now, body),
    }
    given: dict[str, Any] = {"body": body, "headers": headers, "secret": [new, old]}
    exec(by_client, given)
    assert given["order"] == {"a": 1}
    assert verify(old, headers, body)
    assert verify(new, headers, body)
    assert not verify(new_secret(), headers, body)
    assert not verify(new, headers, body + b" ")
    assert not verify(new, headers | {"webhook-timestamp": str(now - 301)}, body)
