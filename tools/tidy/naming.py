"""A name means one thing, and says it: no name of a type twice, no riddles."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from tidy.pages import GLOSSARY, explained_words
from tidy.rule import Finding, Rule, Tree, nodes, python, select, without_comments
from tidy.words import snake

SOURCE: Final = "src/postdate/"
LAB: Final = "packages/lab/src/postdate_lab/"
CLIENT: Final = "packages/client/src/postdate/client/"
GENERATED: Final = tuple(
    f"{CLIENT}{name}" for name in ("models/", "calls/", "problems.py", "extended.py")
)
"""Named after the operations of the API; `extended.py` adds to generated classes."""
"""Written from the API: a class there has the name of the shape it carries."""

HOMONYMS: Final = {
    "Delivery": "the SDK's word for a verified webhook; inside, what a handler gets",
    "Worker": "the worker of the SDK; inside, a destination of jobs",
}
"""Names of types that mean two things and may, with the reason. The list may only shrink."""


class Riddle(NamedTuple):
    """A word that a stranger guesses wrong, what to say instead, and which names it spoils.

    `kinds` are the kinds of definitions that may not be called so; `catches` proves the pattern.
    """

    word: str
    say: str
    kinds: frozenset[str]
    catches: str


_PUBLIC: Final = frozenset({"module", "class", "function"})
_SEEN: Final = _PUBLIC | {"argument", "field", "constant"}
_ALL: Final = _SEEN | {"variable"}
"""Public names; also the names that callers see; also those inside one function."""

SETTINGS: Final = f"{SOURCE}core/setting/table.py"

TEST_MODULES: Final = {
    "tests/model/test_chaos_first_call.py": "the room of the lab",
    "tests/stations/test_places.py": "the room of lane",
    "tests/stations/test_settle_culprit.py": "the room of settlement",
}
"""Test modules that are still named by a riddle, and whose room it is. The list only shrinks."""

_ALIAS: Final = re.compile(r"[A-Z][a-z]\w*")
_FUNCTION: Final = re.compile(r"\bFUNCTION (\w+)\s*\(([^)]*)\)")
_QUERY: Final = re.compile(r"^-- name: (\w+)", re.MULTILINE)
_SETTING: Final = re.compile(r'^    "([\w.]+)": Setting', re.MULTILINE)

RIDDLES: Final = (
    Riddle("told|tell", "record_event, notify", _ALL, "told tell_created MOST_TOLD"),
    Riddle("note", "record_event, notify", frozenset({"function"}), "note _note"),
    Riddle("knocks?", "login_throttle", _ALL, "Knocks knock"),
    Riddle("trials?", "destination_test", _ALL, "Trials trial"),
    Riddle("culprits?", "poison_payment", _ALL, "find_culprit culprits"),
    Riddle("grounds?", "setup, server, or what it is made of", _ALL, "Ground job_ground"),
    Riddle("wish|wishes", "request", _ALL, "Wish wishes"),
    Riddle("purses?", "the account, the balance", _ALL, "_Purse purse"),
    Riddle("(?<!at_)most", "max_…", _SEEN, "BATCH_MOST most MOST_PORT"),
    Riddle("(?<!at_)least", "min_…", _SEEN, "LEGS_LEAST least"),
    Riddle("places?", "lane_bucket, path, position", _SEEN, "Places place_of"),
    Riddle("flights?", "claimed, open", _ALL, "InFlight flight"),
    Riddle("turns?", "batch_order, round", _SEEN, "turns in_turn"),
    Riddle("same", "equivalent_…", _PUBLIC, "Same same"),
    Riddle("given", "what is given", _PUBLIC, "Given encode_given"),
    Riddle("over", "what is over, exceeded", frozenset({"class", "module"}), "Over"),
    Riddle(
        "first|edge|word|asked", "what it is", frozenset({"class", "module"}), "First edge Word"
    ),
)
"""From our own past: each stood in the code, and each was guessed wrong."""

NO_NOUNS: Final = {
    "document": "the API's own description, OpenAPI's word",
    "health": "the words of probes: health, ready, metrics",
    "whoami": "a command's name",
}
"""Rooms of intake and of the API that are named after no word of the glossary, and why."""

PUBLIC_NAMES: Final = {
    "IdempotencyInFlightError": "an error code of the API: `idempotency_in_flight`",
    "IDEMPOTENCY_IN_FLIGHT": "an error code of the API: `idempotency_in_flight`",
}
"""Names that callers already use."""


def _classes(module: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in nodes(module) if isinstance(node, ast.ClassDef))


def homonyms(tree: Tree) -> Iterator[Finding]:
    """Find types that have the name of another type: classes, aliases, type variables.

    Type variables may share a name among themselves: each is of one module.
    """
    for name, spots in _types_by_name(tree).items():
        if len(spots) > 1 and name not in HOMONYMS and not all(each.variable for each in spots):
            for path, line, _ in spots:
                yield Finding(path, line, f"type {name} exists {len(spots)} times: qualify it")


class _Spot(NamedTuple):
    path: str
    line: int
    variable: bool


def _types_by_name(tree: Tree) -> dict[str, list[_Spot]]:
    found: dict[str, list[_Spot]] = defaultdict(list)
    for path, module in python(tree, SOURCE, CLIENT, LAB):
        if not path.startswith(GENERATED):
            for line, name, variable in _types(module):
                found[name].append(_Spot(path, line, variable))
    return found


def _types(module: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Give line and name of each class and alias of a type, and whether it is a type variable."""
    for node in _classes(module):
        yield node.lineno, node.name, False
    for statement in module.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="TypeVar"))
            ):
                yield statement.lineno, name, True
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                # What a call returns is a value, and a name for another module's type is no second.
                if _ALIAS.fullmatch(name) and not isinstance(value, ast.Call | ast.Attribute):
                    yield statement.lineno, name, False
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                yield statement.lineno, name, False
            case _:
                pass


def _attributes(module: ast.Module) -> Iterator[tuple[int, str, str]]:
    for node in nodes(module):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, "field", name
            case _:
                pass


def _sql_definitions(text: str) -> Iterator[tuple[int, str, str]]:
    """Give line, kind and name of each query, function and parameter of a SQL file."""
    for found in _QUERY.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, "function", found[1]
    for found in _FUNCTION.finditer(without_comments(text)):
        line = text.count("\n", 0, found.start()) + 1
        yield line, "function", found[1]
        for parameter in found[2].split(","):
            for name in parameter.split()[:1]:
                yield line, "argument", name


def hidden_riddles(tree: Tree) -> Iterator[Finding]:
    """Find riddles among attributes, SQL, settings and test modules."""
    named = [(path, each) for path, module in python(tree, SOURCE) for each in _attributes(module)]
    for path, text in select(tree, (SOURCE,), ".sql"):
        named += [(path, each) for each in _sql_definitions(text)]
    settings = _SETTING.finditer(tree.get(SETTINGS, ""))
    named += [(SETTINGS, (1, "field", each[1].replace(".", "_"))) for each in settings]
    for path, _ in select(tree, ("tests/",), ".py"):
        name = PurePosixPath(path).stem
        if name.startswith("test_") and path not in TEST_MODULES:
            named.append((path, (1, "module", name.removeprefix("test_"))))
    for path, (line, kind, name) in named:
        riddle = riddle_of(kind, name)
        if riddle:
            yield Finding(path, line, f"{kind} {name}: say {riddle.say}")


def stale_homonyms(tree: Tree) -> list[str]:
    """Give the exceptions that are none any more: the list of homonyms only shrinks."""
    found = _types_by_name(tree)
    return [name for name in HOMONYMS if len(found[name]) < 2]


def _definitions(path: str, module: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Give line, kind and name of all that a file defines, itself included."""
    for part in PurePosixPath(path).with_suffix("").parts[-2:]:
        yield 1, "module", part
    fields = {
        node.target
        for owner in _classes(module)
        for node in owner.body
        if isinstance(node, ast.AnnAssign)
    }
    for node in nodes(module):
        line = getattr(node, "lineno", 1)
        match node:
            case ast.ClassDef(name=name):
                yield line, "class", name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield line, "function", name
            case ast.arg(arg=name):
                yield line, "argument", name
            case ast.Name(id=name, ctx=ast.Store()):
                yield line, _kind(name, is_field=node in fields), name
            case _:
                pass


def _kind(name: str, *, is_field: bool) -> str:
    if name.isupper():
        return "constant"
    return "field" if is_field else "variable"


def riddle_of(kind: str, name: str) -> Riddle | None:
    """Say which riddle a name contains, if any."""
    if name in PUBLIC_NAMES:
        return None
    words = snake(name)
    fits = (each for each in RIDDLES if kind in each.kinds)
    return next((each for each in fits if re.search(rf"_({each.word})_", words)), None)


def riddles(tree: Tree) -> Iterator[Finding]:
    """Find names that only their author understands; in tests, classes and modules."""
    for path, module in python(tree, SOURCE, CLIENT, "tests/"):
        kinds = _ALL if path.startswith((SOURCE, CLIENT)) else frozenset({"class", "module"})
        for line, kind, name in _definitions(path, module):
            riddle = riddle_of(kind, name) if kind in kinds else None
            if riddle and not path.startswith(GENERATED) and not name.startswith("test_"):
                yield Finding(path, line, f"{kind} {name}: say {riddle.say}")


def unused_words(tree: Tree) -> Iterator[Finding]:
    """Find words of the glossary that are no name in the code."""
    known = {
        word
        for path, module in python(tree, SOURCE, CLIENT)
        for _, _, name in _definitions(path, module)
        for word in (snake(name).strip("_"), *snake(name).strip("_").split("_"))
    }
    for word in explained_words(tree):
        if word not in known:
            yield Finding(GLOSSARY, 1, f"nothing in the code is called {word}")


def unexplained_nouns(tree: Tree) -> Iterator[Finding]:
    """Find rooms of intake and of the API whose noun the glossary does not explain.

    `job_change` is a room of the job, `key` is short for `api_key`.
    """
    explained = {*explained_words(tree), *NO_NOUNS}
    for path, noun in _rooms(tree):
        if not {noun, noun.partition("_")[0], f"api_{noun}"} & explained:
            yield Finding(path, 1, f"{noun} is not in the glossary")


def _rooms(tree: Tree) -> Iterator[tuple[str, str]]:
    for path, _ in select(tree, (SOURCE,), ".py"):
        match path.removeprefix(SOURCE).split("/"):
            case [noun, "api.py" | "api"] | [noun, "api", _]:
                yield path, noun
            case _:
                pass


RULES: Final = (
    Rule(
        "hidden_riddles",
        hidden_riddles,
        bad=(
            {f"{SOURCE}event/a.py": "self._told = 1"},
            {f"{SOURCE}event/a.sql": "-- name: event_tell\nSELECT 1"},
            {f"{SOURCE}event/a.sql": "CREATE FUNCTION a(most integer) RETURNS integer"},
            {SETTINGS: 'A = {\n    "key.most": Setting(1)}'},
            {"tests/flows/test_culprit.py": ""},
        ),
        good=(
            {f"{SOURCE}event/a.py": "self.max_count = found.most"},
            {f"{SOURCE}event/a.sql": "-- most\nCREATE FUNCTION a(max_count integer)"},
            {SETTINGS: 'A = {\n    "key.max_count": Setting(1)}'},
            {"tests/support/culprit_free.py": ""},
        ),
    ),
    Rule(
        "homonyms",
        homonyms,
        bad=(
            {f"{SOURCE}a.py": "class Page: ...", f"{SOURCE}b.py": "class Page: ..."},
            {f"{SOURCE}a.py": "class Page:\n    class Page: ..."},
            {f"{SOURCE}a.py": "Kind = int | str", f"{LAB}b.py": "Kind = str"},
            {f"{SOURCE}a.py": "Kind: TypeAlias = 'int'", f"{SOURCE}b.py": "class Kind: ..."},
            {f"{SOURCE}a.py": "Kind = TypeVar('Kind')", f"{SOURCE}b.py": "class Kind: ..."},
        ),
        good=(
            {f"{SOURCE}a.py": "Kind = TypeVar('Kind')", f"{SOURCE}b.py": "Kind = TypeVar('Kind')"},
            {f"{SOURCE}a.py": "Kind = int", f"{SOURCE}b.py": "Kind = a.Kind"},
            {f"{SOURCE}a.py": "T = int", f"{SOURCE}b.py": "T = str\nKIND = 1"},
            {f"{SOURCE}a.py": "class JobPage: ...", f"{SOURCE}b.py": "class Page: ..."},
            {f"{SOURCE}a.py": "class Page: ...", f"{CLIENT}models/b.py": "class Page: ..."},
            {f"{SOURCE}a.py": "class Page: ...", "tests/b.py": "class Page: ..."},
        ),
    ),
    Rule(
        "riddles",
        riddles,
        bad=(
            {f"{SOURCE}knock.py": "x = 1"},
            {f"{SOURCE}ground/a.py": "x = 1"},
            {f"{SOURCE}a.py": "BATCH_MOST = 1"},
            {f"{SOURCE}a.py": "def f(*, wishes): ..."},
            {f"{SOURCE}a.py": "class A:\n    async def _tell(self): ..."},
            {f"{SOURCE}a.py": "class A:\n    place: str"},
            {f"{SOURCE}same.py": "x = 1"},
            {"tests/support/job_ground.py": "x = 1"},
            {"tests/a.py": "class Wish: ..."},
        ),
        good=(
            {f"{SOURCE}a.py": "MAX_BATCH = 1\nalmost = same = 1"},
            {f"{SOURCE}a.py": "def at_most(limit):\n    place = 1"},
            {f"{CLIENT}models/a.py": "least = 1"},
            {"tests/a.py": "def test_what_is_told_is_true(): ..."},
        ),
    ),
    Rule(
        "unused_words",
        unused_words,
        bad=({GLOSSARY: "- **alarm**: rings", f"{SOURCE}a.py": "timer = 1"},),
        good=(
            {GLOSSARY: "- **timer**: rings", f"{SOURCE}a.py": "class JobTimer: ..."},
            {GLOSSARY: "- **due_at**: when", f"{SOURCE}a.py": "due_at = 1"},
            {GLOSSARY: "- **timer**: rings", f"{SOURCE}timer.py": ""},
        ),
    ),
    Rule(
        "unexplained_nouns",
        unexplained_nouns,
        bad=(
            {GLOSSARY: "- **job**: work", f"{SOURCE}alarm/api.py": ""},
            {GLOSSARY: "- **job**: work", f"{SOURCE}alarm/api/x.py": ""},
        ),
        good=(
            {GLOSSARY: "- **job**: work", f"{SOURCE}job/api.py": ""},
            {GLOSSARY: "- **job**: work", f"{SOURCE}job/api/job.py": ""},
            {GLOSSARY: "- **job**: work", f"{SOURCE}alarm/spec.py": ""},
        ),
    ),
)
