"""Rules of the pages: what must be written down, and where."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Final

from postdate.api.guide import ROOT_FILES, SHIPPED, resolve
from tidy.rule import Finding, Rule, Tree, line_of, python, select

ARCHITECTURE: Final = "ARCHITECTURE.md"
PACKAGES: Final = "src/postdate/"
CLIENT: Final = "packages/client/src/postdate/"
DECISIONS: Final = "docs/decisions/"
GLOSSARY: Final = "docs/glossary.md"
CODE_WORDS: Final = "docs/words.md"
HEADINGS: Final = ("Situation", "Decision", "What was given up", "When to look again")

# fmt: off
WORDS: Final = (
    "job", "payment", "schedule", "timer", "due_at", "bucket", "lane", "destination", "payload",
    "attempt", "lease", "token", "outcome", "status", "event", "subscription", "account",
    "hold", "entry", "transfer", "amount", "tenant", "api_key", "transaction",
    "accept", "reschedule", "cancel", "claim", "renew", "deliver", "record", "retry", "settle",
    "release", "redrive", "expand", "publish", "seal", "prove", "prune",
)
# fmt: on
"""One word per concept, then the verbs. Each has one line in the glossary or on the other page."""

_ROW: Final = re.compile(r"^\| ((?:`\w+`[, ]*)+) \|", re.MULTILINE)
_PATH: Final = re.compile(
    r"`((?:src|tests|tools|packages|docs|recurrence|foresight|schedule|scheduler|database|runtime"
    r"|model|store|intake|views|api|core|job|payment|ledger|calendar|worker|settlement)/[\w./-]+)`"
)
OLD_PATHS: Final = {
    f"{DECISIONS}0023-rooms-by-noun.md": "is superseded by 0030, and says how it was before",
}
"""Decisions that name paths of their day, and why. The list only shrinks."""

_SUPERSEDES: Final = re.compile(r"^\*(Superseded|Supersedes) (.+)\*$", re.MULTILINE)
_GENERATED: Final = re.compile(r"<!-- generated.*?<!-- end -->", re.DOTALL)

HOME: Final = "docs/index.md"
_DESCRIBED: Final = re.compile(r"^- \[[^\]]+\]\(([^)#\s]+)\): \S", re.MULTILINE)
_LISTED: Final = re.compile(r"^(?:-|\|.*\|) \[[^\]]+\]\(([^)#\s]+)\)", re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def silent_modules(tree: Tree) -> Iterator[Finding]:
    """Find modules and SQL files that do not say what they are for."""
    for path, module in python(tree, "src/"):
        if not ast.get_docstring(module):
            yield Finding(path, 1, "begin with one sentence that says what it is for")
    for path, text in select(tree, ("src/",), ".sql"):
        if not text.startswith("-- ") or text.startswith("-- name:"):
            yield Finding(path, 1, "begin with a comment that says what it is for")


def unfinished_decisions(tree: Tree) -> Iterator[Finding]:
    """Find decisions without their number, title or four headings, and shared numbers."""
    seen: dict[str, str] = {}
    for path, text in select(tree, (DECISIONS,), ".md"):
        name = PurePosixPath(path).name
        if name == "index.md":
            continue
        number, _, _ = name.partition("-")
        if not re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", name):
            yield Finding(path, 1, "call it NNNN-title.md")
        if not text.startswith(f"# {number} "):
            yield Finding(path, 1, f"begin with `# {number} Title`")
        found = tuple(re.findall(r"^## (.+)$", text, re.MULTILINE))
        if found != HEADINGS:
            yield Finding(path, 1, f"the headings are {', '.join(HEADINGS)}; here: {found}")
        if number in seen:
            yield Finding(path, 1, f"{seen[number]} has this number too")
        seen[number] = path


def one_sided_supersessions(tree: Tree) -> Iterator[Finding]:
    """Find decisions of which only one says that the later supersedes the earlier."""
    said: dict[str, set[tuple[str, str]]] = {"Superseded": set(), "Supersedes": set()}
    for path, text in select(tree, (DECISIONS,), ".md"):
        own = PurePosixPath(path).name
        for word, others in _SUPERSEDES.findall(text.partition("\n## ")[0]):
            for other in _LINK.findall(others):
                said[word].add((own, other) if word == "Superseded" else (other, own))
    for earlier, later in sorted(said["Superseded"] ^ said["Supersedes"]):
        path = DECISIONS + (later if (earlier, later) in said["Superseded"] else earlier)
        yield Finding(path, 1, f"say below the title, in italics: {later} supersedes {earlier}")


def unexplained_gaps(tree: Tree) -> Iterator[Finding]:
    """Find numbers without a decision that the index does not explain."""
    index = f"{DECISIONS}index.md"
    prose = _GENERATED.sub("", tree.get(index, ""))
    names = (PurePosixPath(path).name[:4] for path, _ in select(tree, (DECISIONS,), ".md"))
    used = {int(number) for number in names if number.isdecimal()}
    for number in sorted(set(range(1, max(used, default=0))) - used):
        if f"{number:04d}" not in prose:
            yield Finding(index, 1, f"say why there is no {number:04d}")


def stale_paths(tree: Tree) -> Iterator[Finding]:
    """Find files and folders of ours that a decision names and that do not exist.

    A path begins at the root or below `src/postdate`; what has a suffix of code is a path.
    """
    known = {
        end
        for path in tree
        for start in ("", PACKAGES)
        if path.startswith(start)
        for end in _ends(path.removeprefix(start))
    }
    for path, text in select(tree, (DECISIONS,), ".md"):
        for number, line in enumerate(text.splitlines(), 1):
            for named in _PATH.findall(line) if path not in OLD_PATHS else ():
                if named.rstrip("/") not in known:
                    yield Finding(path, number, f"{named} does not exist")


def _ends(path: str) -> Iterator[str]:
    """Give a path, each folder above it, and a module without its suffix."""
    yield from (str(each) for each in (PurePosixPath(path), *PurePosixPath(path).parents))
    yield str(PurePosixPath(path).with_suffix(""))


def room_table(tree: Tree) -> set[str]:
    """Read the names in the first column of the table of rooms."""
    rows = _ROW.finditer(tree.get(ARCHITECTURE, ""))
    return {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}


def packages(tree: Tree) -> dict[str, str]:
    """Give each top-level module of postdate with the path of its first file."""
    found: dict[str, str] = {}
    for path in sorted(tree):
        inner = path.removeprefix(CLIENT).removeprefix(PACKAGES)
        if path.endswith(".py") and inner not in {path, "__init__.py", "__main__.py"}:
            found.setdefault(inner.partition("/")[0].removesuffix(".py"), path)
    return found


def unlisted_packages(tree: Tree) -> Iterator[Finding]:
    """Find rooms that the table does not list, and names in it without a room."""
    table, real = room_table(tree), packages(tree)
    for name in real.keys() - table:
        yield Finding(real[name], 1, f"{name} is not in the table of {ARCHITECTURE}")
    for name in table - real.keys():
        yield Finding(ARCHITECTURE, 1, f"there is no package {name}")


def explained_words(tree: Tree) -> list[str]:
    """Return the words that have a line: those of the users, then those of the code."""
    both = f"{tree.get(GLOSSARY, '')}\n{tree.get(CODE_WORDS, '')}"
    return re.findall(r"^- \*\*(\w+)\*\*: \S", both, re.MULTILINE)


def missing_words(tree: Tree) -> Iterator[Finding]:
    """Find words of the model that glossary and code words do not explain in exactly one line."""
    explained = explained_words(tree)
    for word in WORDS:
        if explained.count(word) != 1:
            yield Finding(GLOSSARY, 1, f"{word} has {explained.count(word)} lines, not one")


def dead_links(tree: Tree) -> Iterator[Finding]:
    """Find links from page to page that lead nowhere."""
    for path, text in select(tree, ("",), ".md"):
        for number, line in enumerate(text.splitlines(), 1):
            for target in _LINK.findall(line):
                if ":" in target:
                    continue
                real = normpath(str(PurePosixPath(path).parent / target))
                if real not in tree and not any(other.startswith(f"{real}/") for other in tree):
                    yield Finding(path, number, f"{target} does not exist")


def unlisted_pages(tree: Tree) -> Iterator[Finding]:
    """Find pages that neither `docs/index.md` describes nor the index of their folder lists."""
    described = [resolve(HOME, each)[0] for each in _DESCRIBED.findall(tree.get(HOME, ""))]
    for path, _ in select(tree, ("docs/",), ".md"):
        above = f"{PurePosixPath(path).parent}/index.md"
        listed = [
            resolve(above, each)[0]
            for each in _LISTED.findall(tree.get(above, ""))
            if above != HOME
        ]
        if described.count(path) > 1:
            yield Finding(path, 1, f"{HOME} lists it {described.count(path)} times, not once")
        if path not in {HOME, *described, *listed}:
            yield Finding(path, 1, f"{HOME} does not say what a reader finds there")


def unshipped_links(tree: Tree) -> Iterator[Finding]:
    """Find links from the documentation to files that the server and the site do not have."""
    for path, text in select(tree, ("docs/",), ".md"):
        for number, line in enumerate(text.splitlines(), 1):
            for target in _LINK.findall(line):
                real, _ = resolve(path, target)
                shipped = real in tree and real.startswith(tuple(f"{each}/" for each in SHIPPED))
                if ":" not in target and not shipped and real not in ROOT_FILES:
                    yield Finding(path, number, f"{target} is not shipped with the documentation")


def _decision(title: str, headings: tuple[str, ...] = HEADINGS) -> str:
    return f"# {title}\n\n" + "".join(f"## {heading}\n\nText.\n\n" for heading in headings)


def _table(*rows: str) -> Tree:
    body = "".join(f"| {row} | purpose |\n" for row in rows)
    return {ARCHITECTURE: body, **{f"{PACKAGES}{name}/__init__.py": "" for name in ("a", "b")}}


_GLOSSARY: Final = "".join(f"- **{word}**: text\n" for word in WORDS)
_TABLE: Final = _table("`a`, `b`")

_OURS: Final = re.compile(r"(?<![\w./-])'?postdate(?:-client|-lab)?(?:\[|'|\s|$)")


def uninstallable(tree: Tree) -> Iterator[Finding]:
    """Find pages that install a distribution of ours by name: nothing was released."""
    for path, text in tree.items():
        if not path.endswith(".md") or path.startswith((DECISIONS, "packages/", "docs/evidence/")):
            continue
        for found in re.finditer(r"pip install ([^`#\n]*)", text):
            if _OURS.search(found[1]):
                line = line_of(text, found.start())
                yield Finding(path, line, "nothing is released: pip install a path of the clone")


RULES: Final = (
    Rule(
        "unlisted_packages",
        unlisted_packages,
        bad=(
            _table("`a`"),
            _table("`a`", "`b`, `c`"),
            {**_TABLE, f"{PACKAGES}c.py": ""},
            {**_TABLE, f"{PACKAGES}c/d.py": ""},
        ),
        good=(_TABLE, _table("`a`", "`b`")),
    ),
    Rule(
        "missing_words",
        missing_words,
        bad=({}, {GLOSSARY: _GLOSSARY.replace("timer", "alarm")}, {GLOSSARY: _GLOSSARY * 2}),
        good=(
            {GLOSSARY: _GLOSSARY},
            {GLOSSARY: _GLOSSARY.replace("- **timer**: text\n", ""), CODE_WORDS: "- **timer**: t"},
        ),
    ),
    Rule(
        "dead_links",
        dead_links,
        bad=({"docs/a.md": "[b](b.md)"}, {"docs/a.md": "[b](../b.md#c)"}, {"a.md": "[b](docs/)"}),
        good=(
            {"docs/a.md": "[b](../b.md#c) [d](e/) [w](https://w)", "b.md": "", "docs/e/f.md": ""},
        ),
    ),
    Rule(
        "unlisted_pages",
        unlisted_pages,
        bad=(
            {HOME: "", "docs/a.md": ""},
            {HOME: "- [A](a.md)", "docs/a.md": ""},
            {HOME: "- [A](a.md): one\n- [A](a.md): two", "docs/a.md": ""},
            {HOME: "- [B](b/index.md): b", "docs/b/index.md": "", "docs/b/a.md": ""},
        ),
        good=(
            {HOME: "- [A](a.md): a\n- [B](b/index.md): b", "docs/a.md": "", "docs/b/index.md": ""},
            {
                HOME: "- [B](b/index.md): b",
                "docs/b/index.md": "| symptom | [A](a.md) |\n- [C](c.md): c",
                "docs/b/a.md": "",
                "docs/b/c.md": "",
            },
        ),
    ),
    Rule(
        "unshipped_links",
        unshipped_links,
        bad=(
            {"docs/a.md": "[t](../tests/t.py)", "tests/t.py": ""},
            {"docs/a/b.md": "[s](../../src/s.py)", "src/s.py": ""},
            {"docs/a.md": "[e](../examples/e/)", "examples/e/f.py": ""},
        ),
        good=(
            {
                "docs/a.md": "[e](../examples/e.py) [r](../README.md) [w](https://w) [c](c.md)",
                "docs/c.md": "",
                "examples/e.py": "",
            },
        ),
    ),
    Rule(
        "uninstallable",
        uninstallable,
        bad=(
            {"README.md": "`pip install postdate`"},
            {"docs/a.md": "pip install --quiet 'postdate[nats]'"},
            {"docs/a.md": "pip install postdate-client fastapi"},
        ),
        good=(
            {
                "docs/a.md": "`pip install ./packages/client '.[nats]'` of postdate",
                "deploy/a.md": "/opt/postdate/bin/pip install . ./packages/client  # postdate",
                f"{DECISIONS}0001-a.md": "pip install postdate",
            },
        ),
    ),
    Rule(
        "silent_modules",
        silent_modules,
        bad=(
            {"src/a.py": "x = 1"},
            {"src/a.sql": "SELECT 1;"},
            {"src/a.sql": "-- name: a_find\nSELECT 1;"},
        ),
        good=(
            {"src/a.py": '"""Say it."""'},
            {"src/a.sql": "-- Say it.\n"},
            {"tests/a.py": "x = 1"},
        ),
    ),
    Rule(
        "unfinished_decisions",
        unfinished_decisions,
        bad=(
            {f"{DECISIONS}0001-a.md": _decision("0001 A", HEADINGS[:3])},
            {f"{DECISIONS}0001-a.md": _decision("0001 A", HEADINGS[::-1])},
            {f"{DECISIONS}0001-a.md": _decision("0002 A")},
            {f"{DECISIONS}a.md": _decision("a A")},
            {
                f"{DECISIONS}0001-a.md": _decision("0001 A"),
                f"{DECISIONS}0001-b.md": _decision("0001 B"),
            },
        ),
        good=({f"{DECISIONS}0001-a.md": _decision("0001 A")},),
    ),
    Rule(
        "one_sided_supersessions",
        one_sided_supersessions,
        bad=(
            {f"{DECISIONS}0001-a.md": "# 0001 A\n\n*Superseded by [0002](0002-b.md): c.*\n"},
            {f"{DECISIONS}0002-b.md": "# 0002 B\n\n*Supersedes in part [0001](0001-a.md).*\n"},
        ),
        good=(
            {
                f"{DECISIONS}0001-a.md": "# 0001 A\n\n*Superseded by [0002](0002-b.md): c.*\n",
                f"{DECISIONS}0002-b.md": "# 0002 B\n\n*Supersedes [0001](0001-a.md).*\n",
            },
        ),
    ),
    Rule(
        "unexplained_gaps",
        unexplained_gaps,
        bad=(
            {f"{DECISIONS}0002-b.md": ""},
            {
                f"{DECISIONS}0002-b.md": "",
                f"{DECISIONS}index.md": "<!-- generated: decisions -->\n0001\n<!-- end -->",
            },
        ),
        good=(
            {f"{DECISIONS}0001-a.md": "", f"{DECISIONS}0002-b.md": ""},
            {f"{DECISIONS}0002-b.md": "", f"{DECISIONS}index.md": "0001 was never used."},
        ),
    ),
    Rule(
        "stale_paths",
        stale_paths,
        bad=(
            {f"{DECISIONS}0001-a.md": "See `model/timeline`."},
            {f"{DECISIONS}0001-a.md": "See `src/postdate/job/a.py`.", f"{PACKAGES}job/b.py": ""},
        ),
        good=(
            {f"{DECISIONS}0001-a.md": "See `job/a.py`, `job/a`.", f"{PACKAGES}job/a.py": ""},
            {f"{DECISIONS}0001-a.md": "See `src/postdate/`.", f"{PACKAGES}job/a.py": ""},
            {f"{DECISIONS}0001-a.md": "`application/json`, `a.py`"},
            {f"{DECISIONS}0023-rooms-by-noun.md": "`api/routes/`"},
        ),
    ),
)
