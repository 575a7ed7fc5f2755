import pytest

from postdate.node.log import HIDDEN, redact


@pytest.mark.parametrize(
    ("name", "value", "canary"),
    [
        ("authorization", "Bearer abc", "abc"),
        ("api_key", "abc", "abc"),
        ("dsn", "postgresql://u:abc@h/d", "abc"),
        ("detail", "connect postgresql://user:hunter2@host/db failed", "hunter2"),
        ("detail", "header Authorization: Bearer tokentoken", "tokentoken"),
        ("error", "key pdk_c2VjcmV0c2VjcmV0 was refused", "c2VjcmV0c2VjcmV0"),
        ("error", "secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GKYqrTwjUPD8"),
        ("exception", "Traceback … DSN postgres://a:hunter2@h", "hunter2"),
        ("headers", {"Authorization": "Bearer abcabc"}, "abcabc"),
        ("items", ["pdk_c2VjcmV0"], "c2VjcmV0"),
    ],
)
def test_a_secret_is_hidden_by_its_name_or_its_form(name: str, value: object, canary: str) -> None:
    line = redact(None, "info", {"event": "x", name: value})
    assert canary not in repr(line)
    assert HIDDEN in repr(line)


def test_what_is_no_secret_stays() -> None:
    line = {"event": "job.claimed", "token": 7, "job_id": "j", "lane": "mail", "attempt": 2}
    assert redact(None, "info", dict(line)) == line
