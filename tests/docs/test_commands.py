"""Commands that the pages name exist, and take what they are given there."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from postdate.cli import output, watch
from postdate.cli.main import app, load_all
from support.command import commands

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMANDS = ROOT / "src/postdate/cli/commands"
CLIENT_PAGE = ROOT / "docs/reference/client.md"
TO_STANDARD_OUTPUT = re.compile(
    r"^ +(?:print\((?!.*file=sys.stderr)|sys\.stdout\.write)", re.MULTILINE
)
"""Prints past `show`, which knows the forms."""


def in_pages() -> Iterator[str]:
    for page in sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")]):
        for block in FENCE.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                words = line.strip().removeprefix("$ ")
                if words.startswith("postdate ") and not re.search(r"[|>&…]|\[\w+\]", words):
                    yield words


@pytest.mark.parametrize("line", sorted(set(in_pages())))
def test_a_command_that_is_named_exists(line: str) -> None:
    words = output.take(shlex.split(line, comments=True)[1:])
    command, bound, *_ = app.parse_args(words, exit_on_error=False, print_error=False)
    assert command is not None
    assert bound is not None


def test_every_command_beside_an_operation_exists() -> None:
    load_all()
    column = re.findall(r"\| `postdate (api|[a-z -]+)", CLIENT_PAGE.read_text())
    known = dict(commands(app))
    assert len(column) > 90
    assert [words for words in column if words not in known] == []


def test_a_command_that_may_be_repeated_exists() -> None:
    load_all()
    assert set(dict(commands(app))) >= watch.READING


def test_every_command_prints_json_where_it_prints() -> None:
    load_all()
    assert len(dict(commands(app))) > 60
    texts = {path.name: path.read_text() for path in COMMANDS.glob("*.py")}
    by_hand = {name for name, text in texts.items() if TO_STANDARD_OUTPUT.search(text)}
    assert by_hand
    assert [name for name in by_hand if "wants_json()" not in texts[name]] == []
