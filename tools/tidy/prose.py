"""Plain English: phrases of our own past that an engineer would not say, and what to say."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidy.rule import Finding, Rule, Tree, nodes, python, select

SOURCE: Final = "src/postdate/"
PAGES: Final = ("docs/", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
RECORDS: Final = "docs/decisions/"
"""Decisions are a record: they stay in the words of their day."""


class Phrase(NamedTuple):
    """A pattern, what to say instead, and a text that proves the pattern."""

    pattern: str
    say: str
    catches: str


PHRASES: Final = (
    Phrase(r"again and again", "repeatedly, continuously", "Runs a step again and again."),
    Phrase(r"for ever\b", "forever, permanently", "It is kept for ever."),
    Phrase(r"at the most\b", "at most, a maximum of", "Ten jobs at the most."),
    Phrase(
        r"what (became|becomes|came) of", "the result, the outcome", "Say what became of a job."
    ),
    Phrase(
        r"(somebody else|a stranger) holds", "another transaction has locked", "a stranger holds"
    ),
    Phrase(r"so many (seconds|minutes|days|jobs|events)", "a number of", "Wait so many seconds."),
    Phrase(r"\b(tells?|told) of\b", "report, return, is about", "Tell of the destinations."),
    Phrase(r"\b(is|was|were|be) broken off", "interrupted", "an advance that was broken off"),
    Phrase(r"\banew\b", "again, re-…", "Encrypt every secret anew."),
    Phrase(r"\bwho(ever)? asks\b", "the caller, the client", "who asks first waits for that"),
    Phrase(
        r"(tenants?|settlement|service|loops?)( that)? stands? still",
        "is halted, is stopped",
        "a tenant that stands still",
    ),
    Phrase(
        r"\blet (it|an? \w+|the \w+|a paused \w+) go on", "resume, continue", "Let a lane go on."
    ),
    Phrase(
        r"give (an?|it|each) ?.{0,24} another (time|instant)",
        "reschedule",
        "Give a payment another time.",
    ),
)
"""Each stood in our docstrings or pages, most of them dozens of times."""


def phrase_of(text: str) -> Phrase | None:
    """Return the first phrase that a text contains, across line breaks."""
    plain = " ".join(text.split())
    return next((each for each in PHRASES if re.search(each.pattern, plain, re.IGNORECASE)), None)


def _texts(text: str, module: ast.Module) -> Iterator[tuple[int, str]]:
    """Return the line and text of each docstring, attribute docstring and comment."""
    for node in nodes(module):
        match node:
            case ast.Expr(value=ast.Constant(value=str(said))):
                yield node.lineno, said
            case _:
                pass
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def riddle_phrases(tree: Tree) -> Iterator[Finding]:
    """Find phrases in docstrings, comments and pages that should be said in plain English."""
    for path, module in python(tree, SOURCE):
        for line, said in _texts(tree[path], module):
            phrase = phrase_of(said)
            if phrase:
                yield Finding(path, line, f"{said.strip()[:60]!r}: say {phrase.say}")
    for path, text in select(tree, PAGES, ".md"):
        for number, said in enumerate(text.splitlines(), 1):
            phrase = phrase_of(said)
            if phrase and not path.startswith(RECORDS):
                yield Finding(path, number, f"{said.strip()[:60]!r}: say {phrase.say}")


RULES: Final = (
    Rule(
        "riddle_phrases",
        riddle_phrases,
        bad=(
            {f"{SOURCE}a.py": '"""Say what became of a job."""'},
            {f"{SOURCE}a.py": "def f():\n    '''Run it again\n    and again.'''"},
            {f"{SOURCE}a.py": "x = 1  # kept for ever"},
            {f"{SOURCE}a.py": 'MAX = 1\n"""How many at the most."""'},
            {"docs/guides/a.md": "The advance was broken off."},
            {"README.md": "A tenant that stands still."},
        ),
        good=(
            {f"{SOURCE}a.py": '"""Resolve a job whose status is UNKNOWN."""\nx = "for ever"'},
            {f"{SOURCE}a.py": '"""The clock stands still until it is advanced."""'},
            {"docs/decisions/0001-a.md": "It was kept for ever."},
            {"tests/a.py": '"""It waits for ever."""'},
        ),
    ),
)
