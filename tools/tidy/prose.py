"""Plain English: phrases of our own past that an engineer would not say, and what to say."""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
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


HABITS: Final = (
    Phrase(
        r"(?<!or )\b(somebody|nobody|someone|anybody|whoever)\b",
        "the caller, a process, a person; or the passive",
        "unless somebody changed it",
    ),
    Phrase(
        r"(?<!not )\bso (many|few|much)\b(?! (as|that|of)\b)",
        "the number's name",
        "So many are kept.",
    ),
    Phrase(
        r"\bthose (that|who)\b|^the same (of|for|in|at|with|within|while)\b",
        "the noun",
        "Return those that exist.",
    ),
    Phrase(
        r"\b(an?|one|each|every|last|next|first|wider|full|this) looks?\b"
        r"|\blook(s|ed|ing)? (at|for|into|whether)\b",
        "read, scan, poll, check",
        "How long after a look the next is due.",
    ),
)
"""Four habits that cost a reader the subject of a sentence."""


PAGE_HABITS: Final = (
    Phrase(
        r"\b(somebody|nobody|someone|anybody|whoever)\b",
        "the person, the caller, the session; or the passive",
        "until somebody confirms it",
    ),
    Phrase(r"\bgo(es|ing)? on\b", "continue, keep running", "Reads go on."),
    Phrase(r"\bours\b", "Postdate's", "a node of ours"),
    Phrase(r"\bin vain\b", "without success", "It waits in vain."),
    Phrase(
        r"\b(stands?|lies) (in|at|on|under|there)\b",
        "is in, is at, is stored in",
        "It lies in a week.",
    ),
    Phrase(r"\ball the same\b", "still, nevertheless", "It is kept all the same."),
    Phrase(r"\bmend(s|ed|ing)?\b", "repair", "The audit mends it."),
    Phrase(
        r"\b(answer(s|ed|ing)?|stopped|settled|held|known|used|set again|FAILED|then) at once\b",
        "immediately",
        "It is settled at once.",
    ),
    Phrase(
        r"(?<!, )\bso (many|few)\b(?! (as|that|of)\b)", "the number's name", "Wait so many seconds."
    ),
)
"""Habits of the manuals: operators read them at night, so each sentence names who does what."""

MANUALS: Final = ("docs/", "README.md", "SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
NOT_MANUALS: Final = (RECORDS, "docs/evidence/", "docs/reference/api/", "docs/reference/cli.md")
"""Records, and pages that are written from docstrings, which have a rule of their own."""


def phrase_of(text: str, phrases: Iterable[Phrase] = PHRASES) -> Phrase | None:
    """Return the first phrase that a text contains, across line breaks."""
    plain = " ".join(text.split())
    return next((each for each in phrases if re.search(each.pattern, plain, re.IGNORECASE)), None)


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


def habits(tree: Tree) -> Iterator[Finding]:
    """Find sentences without a subject or a number in docstrings, comments, messages and SQL."""
    for path, module in python(tree, SOURCE):
        said = dict.fromkeys([*_texts(tree[path], module), *_messages(module)])
        yield from _habits_of(path, said)
    for path, text in select(tree, (SOURCE,), ".sql"):
        yield from _habits_of(path, _sql_comments(text))


def page_habits(tree: Tree) -> Iterator[Finding]:
    """Find habits of the manuals in the prose of pages: code and quoted names do not count."""
    for path, text in select(tree, MANUALS, ".md"):
        if not path.startswith(NOT_MANUALS):
            yield from _habits_of(path, _paragraphs(text), PAGE_HABITS)


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Return each paragraph of a page with its first line, without code."""
    plain = re.sub(r"^( *)```.*?^\1```$", _blank, text, flags=re.DOTALL | re.MULTILINE)
    plain = re.sub(r"`[^`\n]+`", "`…`", plain)
    for paragraph in re.finditer(r"(?:^.*\S.*$\n?)+", plain, re.MULTILINE):
        yield plain.count("\n", 0, paragraph.start()) + 1, paragraph.group()


def _blank(block: re.Match[str]) -> str:
    return "\n" * block.group().count("\n")


def _habits_of(
    path: str, said: Iterable[tuple[int, str]], phrases: Iterable[Phrase] = HABITS
) -> Iterator[Finding]:
    for line, text in said:
        phrase = phrase_of(text, phrases)
        if phrase:
            yield Finding(path, line, f"{text.strip()[:60]!r}: {phrase.pattern}: say {phrase.say}")


def _messages(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Return each literal that is a sentence: it has words and ends like one."""
    for node in nodes(module):
        match node:
            case ast.Constant(value=str(said)) if " " in said and said.rstrip().endswith("."):
                yield node.lineno, said
            case _:
                pass


def _sql_comments(text: str) -> Iterator[tuple[int, str]]:
    """Return the comments of a SQL file, each with its lines joined."""
    begin, lines = 0, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        _, dashes, said = line.partition("--")
        if dashes and not said.startswith(" name:"):
            begin, lines = begin or number, [*lines, said]
        elif lines:
            yield begin, " ".join(lines)
            begin, lines = 0, []


RULES: Final = (
    Rule(
        "habits",
        habits,
        bad=(
            {f"{SOURCE}event/a.py": '"""Wait until somebody answers."""'},
            {f"{SOURCE}event/a.py": 'LIMIT = 1\n"""So many are kept."""'},
            {f"{SOURCE}event/a.py": "x = 1  # those that exist"},
            {f"{SOURCE}event/a.py": 'raise refuse("Nobody may do this.")'},
            {f"{SOURCE}event/a.sql": "-- name: a\n-- Rows that are looked\n-- at once.\nSELECT 1"},
        ),
        good=(
            {f"{SOURCE}event/a.py": '"""Look a key up; it is not so much work."""\nx = "nobody"'},
            {"docs/a.md": "Nobody answers."},
        ),
    ),
    Rule(
        "page_habits",
        page_habits,
        bad=tuple({"docs/operate/a.md": f"# A\n\n{each.catches}"} for each in PAGE_HABITS),
        good=(
            {"docs/operate/a.md": "Twelve run at once. `nobody`\n\n```\nhistory mend\n```\n"},
            {"docs/decisions/0001-a.md": "It goes on.", "docs/evidence/a.md": "A test of ours."},
            {"docs/operate/a.md": "Rows are not updated, so many pending jobs cost little."},
        ),
    ),
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
