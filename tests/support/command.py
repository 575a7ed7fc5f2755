"""Run commands in this process: starting another for each would take longer than the command."""

import asyncio
import io
import os
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest import mock

import cyclopts
import msgspec

from conftest import Api
from postdate.cli.main import main


@dataclass
class Ran:
    """How a command ended."""

    code: int
    text: str
    err: str

    @property
    def out(self) -> Any:
        """What it printed, read as JSON."""
        return msgspec.json.decode(self.text) if self.text else None


async def run_command(api: Api, *words: str, **settings: str) -> Ran:
    """Run a command against the server of the tests, in a thread of its own."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    environ |= {"POSTDATE_URL": api.url, "POSTDATE_API_KEY": api.key, "COLUMNS": "200"}
    environ |= settings
    with mock.patch.dict(os.environ, environ, clear=True):
        return await asyncio.to_thread(_run, words)


def _run(words: tuple[str, ...]) -> Ran:
    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(words)
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Ran(code, out.getvalue(), err.getvalue())


def commands(group: cyclopts.App, path: str = "") -> Iterator[tuple[str, cyclopts.App]]:
    """Find every command of a group, each with its words."""
    for name in group:
        if name.startswith("-"):
            continue
        below, where = group[name], f"{path} {name}".strip()
        if below.default_command is not None:
            yield where, below
        yield from commands(below, where)
