"""The tutorials are followed in a directory like a clone, with nothing but their pages."""

import re
from pathlib import Path

import pytest

from conftest import scratch
from support.program import free_port
from support.serve_process import Served
from support.terminal import make_clone, matches, opened

ROOT = Path(__file__).parents[2]
LISTENS = {"tutorial-rent.md": "9000", "tutorial-webhooks.md": "9001", "tutorial-worker.md": ""}
"""The pages, and the port on which the program of each listens."""
BLOCK = re.compile(r"^```(sh|python|)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PROGRAM = re.compile(r"^(?:uvicorn|python) .*examples/tutorials.*$", re.MULTILINE)
RENT = re.compile(r'"rent":"([0-9a-f-]{36})"')


def steps(page: str, ports: dict[str, int]) -> list[tuple[str, str]]:
    """Give what a reader types and then sees; programs of a terminal of their own go behind."""
    text = (ROOT / "docs/start" / page).read_text()
    for named, port in ports.items():
        text = text.replace(named, str(port))
    found: list[tuple[str, str]] = []
    for kind, block in BLOCK.findall(text):
        if not kind:
            found[-1] = found[-1][0], block
        elif kind == "sh" and "make run" not in block:
            found.append((PROGRAM.sub(r"\g<0> &", block), ""))
    return found


def until_it_answers(port: int) -> str:
    """Write a loop that ends when a program listens."""
    return f"until curl -so /dev/null localhost:{port}; do sleep 0.1; done"


def test_what_varies_may_differ_and_nothing_else() -> None:
    one, other = "01a1f046-dedf-7039-81e1-04b8393ed8e6", "01a1f046-df4c-701e-b9d6-e988674641f2"
    assert matches(f'{{"rent":"{one}"}}\n', f'{{"rent":"{other}"}}\n')
    assert not matches('{"balance":5000}\n', '{"balance":100000}\n')


@pytest.mark.process
@pytest.mark.parametrize("page", LISTENS)
async def test_a_tutorial_leads_where_it_says(page: str) -> None:
    ports = {"9000": free_port(), "9001": free_port()}
    own = {
        "RENT_URL": f"http://127.0.0.1:{ports['9000']}",
        "HOOK_PORT": str(ports["9001"]),
    }
    told = steps(page, ports)
    assert [expected for _, expected in told if expected]
    with scratch() as directory:
        make_clone(directory)
        allowed = {"POSTDATE_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8"}
        served = Served(directory / ".postdate", env=allowed)
        await served.start()
        try:
            await served.ready()
            async with opened(directory, **own) as terminal:
                for typed, expected in told:
                    made = RENT.search(terminal.printed)
                    text = typed.replace("SCHEDULE_ID", made[1] if made else "SCHEDULE_ID")
                    await terminal.type_until(text, expected)
                    if PROGRAM.search(typed) and (listens := LISTENS[page]):
                        await terminal.type(until_it_answers(ports[listens]))
        finally:
            await served.stop()
