"""Tasks as their guide shows them: declared, scheduled, awaited, tested, run by a command."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from postdate import Postdate
from postdate.client.pytest_plugin import PostdateServer, TestTenant

GUIDE = Path(__file__).parents[2] / "docs/guides/tasks.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = str(Path(sys.executable).with_name("postdate"))


def blocks() -> list[str]:
    return BLOCK.findall(GUIDE.read_text())


@contextmanager
def command(place: Path, url: str, key: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
    env = {"PATH": "/usr/bin:/bin", "POSTDATE_URL": url, "POSTDATE_API_KEY": key}
    process = subprocess.Popen(
        [COMMAND, "worker", *words], cwd=place, env=env, text=True, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.process
def test_the_guide_is_followed(
    postdate_server: PostdateServer, postdate: TestTenant, tmp_path: Path
) -> None:
    declared, scheduled, waited, _, tested = blocks()
    (tmp_path / "shop.py").write_text(declared)
    known: dict[str, Any] = {"datetime": datetime, "UTC": UTC}
    exec(compile(declared, str(GUIDE), "exec"), known)
    app: Postdate = known["app"]
    app._server = (postdate_server.url, postdate_server.key)
    calls = [line for line in scheduled.splitlines() if not line.startswith("send_invoice(")]
    exec(compile("\n".join(calls), str(GUIDE), "exec"), known)
    first = known["send_invoice"].now(7)
    with command(tmp_path, postdate_server.url, postdate_server.key, "shop:app"):
        assert first.wait() == "invoice 7 sent 1 times"
    exec(compile(waited.replace("handle.wait()", "pass"), str(GUIDE), "exec"), known)
    assert known["handle"].job().status == "CANCELLED"
    app.client.close()
    app._client = None
    exec(compile(tested, str(GUIDE), "exec"), known)
    test: Callable[[TestTenant], None] = known["test_an_invoice_is_sent_after_three_days"]
    test(postdate)


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nothing:app", "there is no module nothing"),
        ("empty:tasks", "empty:tasks has no tasks"),
        ("empty:other", "is no application"),
        ("empty", "has no tasks"),
    ],
)
def test_what_is_no_application_is_said_in_one_sentence(
    tmp_path: Path, words: str, said: str
) -> None:
    (tmp_path / "empty.py").write_text(
        "from postdate import Postdate\napp, tasks, other = Postdate(), Postdate(), 1\n"
    )
    with command(tmp_path, "http://127.0.0.1:1", "pdk_x", words) as process:
        process.wait(60)
        assert process.stderr is not None
        error = process.stderr.read()
        assert (process.returncode, said in error, error.count("\n")) == (2, True, 1), error


def test_a_task_runs_when_its_time_has_come(postdate: TestTenant) -> None:
    app = Postdate()
    sent: list[str] = []

    @app.task()
    def remind(whom: str, *, again: bool = False) -> None:
        sent.append(whom)
        if again:
            remind.later("1h", whom)

    with app.testing(postdate) as time:
        began = time.now
        remind.later("3d", "Ada", again=True)
        assert (time.advance("2d"), sent) == (0, [])
        assert (time.advance(timedelta(days=1)), sent) == (1, ["Ada"])
        assert (time.advance_to(began + timedelta(days=3, hours=1)), sent) == (1, ["Ada", "Ada"])
        assert time.run_due() == 0
