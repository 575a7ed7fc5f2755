"""What the pages tell to install can be installed: a folder of the clone, with its extras."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"pip install ([^`\n]+)")
LOCAL = re.compile(r"(\.[\w./-]*)(?:\[([\w,]+)\])?$")
DECISIONS = ROOT / "docs/decisions"
PAGES = [
    page
    for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/README.md"))
    if DECISIONS not in page.parents
]


def trouble(argument: str) -> str:
    """Say why what is named cannot be installed from a clone; nothing if it can."""
    if argument.startswith("postdate"):
        return "nothing has been released: name the directory of the clone"
    if not (local := LOCAL.match(argument)):
        return ""
    project = ROOT / local[1] / "pyproject.toml"
    if not project.exists():
        return f"there is no {project.relative_to(ROOT)}"
    extras = tomllib.loads(project.read_text())["project"].get("optional-dependencies", {})
    missing = set((local[2] or "").split(",")) - {"", *extras}
    return f"{local[1]} has no extra {', '.join(missing)}" if missing else ""


def named() -> list[tuple[Path, str]]:
    return [
        (page, argument)
        for page in PAGES
        for line in LINE.findall(page.read_text())
        for argument in shlex.split(line, comments=True)
        if not argument.startswith("-")
    ]


def test_the_pages_name_what_a_clone_can_install() -> None:
    found = named()
    assert len({page for page, _ in found}) > 8
    told = [
        f"{page.relative_to(ROOT)}: {each}: {why}" for page, each in found if (why := trouble(each))
    ]
    assert told == []


@pytest.mark.parametrize(
    "wrong",
    ["postdate", "postdate[nats]", "./packages/nothing", ".[otell]", "./packages/client[x]"],
)
def test_what_a_clone_cannot_install_is_found(wrong: str) -> None:
    assert trouble(wrong)


@pytest.mark.parametrize("right", [".", ".[mcp]", "./packages/client[django]", "fastapi"])
def test_what_a_clone_can_install_is_fine(right: str) -> None:
    assert not trouble(right)
