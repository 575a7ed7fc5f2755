"""Find every regular expression of the program, and texts that make a bad one slow."""

import ast
import importlib
import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

# Python's own parser of patterns: it has no public name.
compiler: Any = importlib.import_module("re._compiler")
op: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")

SOURCE = Path(__file__).parents[2] / "src" / "postdate"
METHODS = ("fullmatch", "match", "search", "sub", "split", "findall", "finditer")
REPEATS = {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}
GROWING = 8
"""A repetition allowed fewer times than this cannot grow with the input."""

SAMPLES = 12
TAILS = ("", " ", "\n", "\x00", "!", "~", "\u00e9")


@dataclass(frozen=True)
class Found:
    """A pattern, where it stands, and how it is used."""

    place: str
    pattern: "re.Pattern[Any]"
    method: str

    def run(self, text: str) -> None:
        data: Any = text.encode() if isinstance(self.pattern.pattern, bytes) else text
        arguments = (data[:0], data) if self.method == "sub" else (data,)
        found = getattr(self.pattern, self.method)(*arguments)
        if self.method == "finditer":
            list(found)


@cache
def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


@cache
def in_source() -> list[Found]:
    """Give every pattern in the source; one that cannot be read here is an error."""
    trees = _trees()
    used = _methods_by_name(trees.values())
    everywhere = {name: value for tree in trees.values() for name, value in _constants(tree)}
    found = []
    for path, tree in trees.items():
        names = everywhere | dict(_constants(tree))
        for node in ast.walk(tree):
            for pattern, method in _patterns(node, names, used):
                place = f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
                found.append(Found(place, pattern, method))
    return found


def in_document(document: Any, place: str = "openapi") -> Iterator[Found]:
    """Give every `pattern` of an OpenAPI document; validators search with them."""
    if isinstance(document, list):
        for index, item in enumerate(document):
            yield from in_document(item, f"{place}[{index}]")
    elif isinstance(document, dict):
        for name, item in document.items():
            if name == "pattern" and isinstance(item, str):
                yield Found(place, re.compile(item), "search")
            else:
                yield from in_document(item, f"{place}.{name}")


def _patterns(
    node: ast.AST, names: dict[str, Any], used: dict[str, set[str]]
) -> Iterator[tuple["re.Pattern[Any]", str]]:
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg == "pattern":
                yield re.compile(_value(keyword.value, names)), "search"
        if (called := _called_of_re(node)) in METHODS:
            yield re.compile(_value(node.args[0], names)), called
    if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        if _called_of_re(node.value) == "compile" and isinstance(target, ast.Name):
            for method in sorted(used.get(target.id, {"search"})):
                yield _value(node.value, names), method


def _called_of_re(node: ast.Call) -> str:
    called = node.func
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        return called.attr if called.value.id == "re" else ""
    return ""


def compiled_in_source() -> int:
    """Count the calls of `re.compile`: each must be found above."""
    nodes = itertools.chain.from_iterable(map(ast.walk, _trees().values()))
    return sum(isinstance(n, ast.Call) and _called_of_re(n) == "compile" for n in nodes)


def _methods_by_name(trees: Any) -> dict[str, set[str]]:
    used: dict[str, set[str]] = {}
    for node in itertools.chain.from_iterable(map(ast.walk, trees)):
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            owner = node.value
            name = getattr(owner, "attr", getattr(owner, "id", ""))
            used.setdefault(name, set()).add(node.attr)
    return used


def _constants(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    for node in tree.body:
        target = getattr(node, "target", None) or (getattr(node, "targets", None) or [None])[0]
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
            yield target.id, value.value


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    code = compile(ast.Expression(node), "pattern", "eval")
    return eval(code, {"re": re, **names})


def pumped(pattern: "re.Pattern[Any]") -> Iterator[Callable[[int], str]]:
    """Give texts that repeat what the pattern repeats, so often, and then fail to fit."""
    text = pattern.pattern
    text = text.decode("latin-1") if isinstance(text, bytes) else text
    tree = parser.parse(text, pattern.flags)
    letters = sorted({chr(value) for value in _literals(tree)})
    for before, inner in _repetitions(tree, letters, ("",)):
        samples = _samples(inner, letters)
        for prefix, sample, tail in itertools.product(before[:2], filter(None, samples), TAILS):
            yield partial(_repeated, prefix, sample, tail)


def _repeated(prefix: str, sample: str, tail: str, times: int) -> str:
    return prefix + sample * times + tail


def _repetitions(
    tree: Any, letters: Sequence[str], before: Sequence[str]
) -> Iterator[tuple[Sequence[str], Any]]:
    """Walk a parse tree: each growing repetition, with texts that lead to it."""
    so_far = before
    for kind, argument in tree:
        for inner in _children(kind, argument):
            if kind in REPEATS and argument[1] > GROWING:
                yield so_far, inner
            yield from _repetitions(inner, letters, so_far)
        here = _samples([(kind, argument)], letters)
        so_far = [a + b for a in so_far for b in here][:SAMPLES] or so_far


def _children(kind: Any, argument: Any) -> list[Any]:
    if kind in REPEATS:
        return [argument[2]]
    if kind is op.SUBPATTERN:
        return [argument[3]]
    if kind is op.ATOMIC_GROUP:
        return [argument]
    if kind is op.BRANCH:
        return list(argument[1])
    return []


def _samples(tree: Any, letters: Sequence[str]) -> list[str]:
    """Give a few texts that a piece of a pattern matches."""
    texts = [""]
    for kind, argument in tree:
        if kind is op.LITERAL:
            pieces = [chr(argument)]
        elif kind in {op.IN, op.NOT_LITERAL, op.ANY}:
            pieces = _members(kind, argument, letters)
        elif kind in REPEATS:
            once = _samples(argument[2], letters)
            pieces = [piece * max(argument[0], 1) for piece in once]
            pieces += [""] if argument[0] == 0 else []
        elif kind is op.BRANCH:
            pieces = [text for branch in argument[1] for text in _samples(branch, letters)]
        elif inner := _children(kind, argument):
            pieces = _samples(inner[0], letters)
        else:
            pieces = [""]
        texts = [a + b for a, b in itertools.product(texts, pieces[:SAMPLES])][: SAMPLES * 4]
    return list(dict.fromkeys(texts))[:SAMPLES]


def _members(kind: Any, argument: Any, letters: Sequence[str]) -> list[str]:
    """Choose characters of a class: those named elsewhere in the pattern, and some more."""
    if kind is op.ANY:
        return ["a", *letters]
    one = parser.SubPattern(parser.State(), [(kind, argument)])
    fits = compiler.compile(one).fullmatch
    wanted = [*letters, "a", "0", "A", "!", " ", "-", "\u00e9"]
    return [c for c in wanted if fits(c)] or [chr(n) for n in range(256) if fits(chr(n))][:3]


def _literals(tree: Any) -> Iterator[int]:
    for kind, argument in tree:
        if kind is op.LITERAL:
            yield argument
        for inner in _children(kind, argument):
            yield from _literals(inner)


def seconds(found: Found, text: str) -> float:
    """Measure the quickest of a few runs: noise only ever adds."""
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        found.run(text)
        best = min(best, time.perf_counter() - began)
    return best
