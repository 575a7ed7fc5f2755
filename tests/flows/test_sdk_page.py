"""The page of every call: it shows each operation, and what it shows runs."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import INTERNAL_TOKEN, Api
from postdate.cli.main import app, load_all
from sdk.source import described
from sdk.table import PAGE, command, examples

pytestmark = pytest.mark.own_database("it creates the tenant that the examples name")

TEXT = (Path(__file__).parents[2] / PAGE).read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_every_operation_has_an_example() -> None:
    found, _ = described()
    assert {(each.group, each.name) for each in found} <= examples("\n".join(BLOCKS))
    assert "| none |" not in TEXT


def test_every_operation_has_a_command() -> None:
    load_all()
    found, _ = described()
    for each in found:
        words = command(each).split()
        place: Any = app
        for word in words[:1] if words[0] == "api" else words:
            place = place[word]
        assert place.default_command is not None, words


async def test_what_the_page_shows_runs(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTDATE_URL", api.url)
    monkeypatch.setenv("POSTDATE_API_KEY", api.key)
    monkeypatch.setenv("POSTDATE_INTERNAL_TOKEN", INTERNAL_TOKEN)
    answer = await api.call("PUT", "/settings/payment.approval_above", {"value": 5000})
    assert answer.status == 200
    await api.node.refresh_settings()
    names: dict[str, Any] = {"clerk_key": await api.new_key("payments:write")}
    for block in BLOCKS:
        await asyncio.to_thread(exec, compile(block, PAGE, "exec"), names)
