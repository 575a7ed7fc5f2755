"""The page of five minutes is followed from what a clone is, with nothing but the page."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from conftest import scratch
from support.serve_process import Served

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/start/five-minutes.md"
BLOCK = re.compile(r"^```(sh|python|)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\w+\.py)\n")
END = "-- end of a block, exit code "
SECONDS = 120.0


def script(blocks: list[tuple[str, str]]) -> str:
    """Do what a reader does: save what is named as a file, type what is a command."""
    done = []
    for kind, text in blocks:
        if kind == "sh":
            done.append(f"{text}echo '{END}'$?")
        elif named := FILE.match(text):
            done.append(f"cat > {named[1]} <<'EOF'\n{text}EOF")
    return "\n".join([*done, "kill %1", "wait"])


@pytest.mark.process
async def test_the_page_leads_where_it_says() -> None:
    (_, first), *blocks = BLOCK.findall(PAGE.read_text())
    assert first == "make run\n"
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("POSTDATE_", "PYTEST_", "VIRTUAL"))
    }
    with scratch() as beside:
        directory = beside / "clone"
        directory.mkdir()
        for present in (".venv", ".tools", "pyproject.toml"):
            (directory / present).symlink_to(ROOT / present)
        served = Served(directory / ".postdate")
        await served.start()
        try:
            await served.ready()
            typing = await asyncio.create_subprocess_exec(
                "bash", "-c", script(blocks), cwd=directory, env=kept,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            async with asyncio.timeout(SECONDS):
                printed = (await typing.communicate())[0].decode()
        finally:
            await served.stop()
    said = re.split(rf"{END}(\d+)\n", printed)
    number = -1
    for kind, text in blocks:
        number += kind == "sh"
        if not kind:
            told, code = said[2 * number], said[2 * number + 1]
            assert [line for line in text.splitlines() if line not in told] == [], told
            assert code == ("1" if "failed" in text else "0"), told
    assert sorted(said[1::2]) == ["0"] * number + ["1"], "one test fails, all else succeeds"
