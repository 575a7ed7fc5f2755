"""Read the Containerfile: what it is built from, and what its last stage declares."""

import json
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "deploy/container/Containerfile"
INSIDE: Final = "/opt/postdate/bin/"
"""Where the image has the commands that lie in `.venv/bin` here."""


def instructions() -> list[tuple[str, str]]:
    """Give each instruction with what it says."""
    text = re.sub(r"\\\n", " ", FILE.read_text())
    lines = [line.split(" ", 1) for line in text.splitlines() if line and line[0] != "#"]
    return [(name, rest) for name, rest in lines]


def last(name: str) -> str:
    """Give what the last instruction of a name says."""
    return [rest for each, rest in instructions() if each == name][-1]


def base() -> str:
    """Name the image that ours is made from."""
    return last("FROM").split()[0]


def command() -> list[str]:
    """Give the words that the image runs."""
    return [*json.loads(last("ENTRYPOINT")), *json.loads(last("CMD"))]


def health_check() -> list[str]:
    """Give the words that ask whether the server in the image is ready."""
    words: list[str] = json.loads(last("HEALTHCHECK").partition("CMD ")[2])
    return words


def environment() -> dict[str, str]:
    """Give the variables that the image sets."""
    return dict(word.split("=", 1) for word in last("ENV").split())
