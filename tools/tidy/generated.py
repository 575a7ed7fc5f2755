"""The parts of the pages that follow from the code. `make docs` rewrites them, a rule compares."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from postdate.core.status import JOB_MOVES, PAYMENT_MOVES
from sdk.table import table as client_table
from tidy import api_reference, limits, reference
from tidy.rule import Finding, Rule, Tree, line_of, read_tree, select
from tidy.status_diagram import diagram

DECISIONS: Final = "docs/decisions/"

_BLOCK: Final = re.compile(
    r"(?P<begin><!-- generated: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)

_SUPERSEDED: Final = re.compile(r"^\*(Superseded(?: in part)?) by (.+)\*$", re.MULTILINE)
_NUMBER: Final = re.compile(r"\[(\d{4})\]")


def job_states(_: Tree) -> str:
    """Draw the states of a job."""
    return f"```mermaid\n{diagram(JOB_MOVES)}\n```"


def payment_states(_: Tree) -> str:
    """Draw the states of a payment."""
    return f"```mermaid\n{diagram(PAYMENT_MOVES)}\n```"


def error_codes(_: Tree) -> str:
    """Explain every error code."""
    return reference.errors()


def process_settings(_: Tree) -> str:
    """Explain every setting that is read when a process starts."""
    return reference.process_settings()


def runtime_settings(_: Tree) -> str:
    """Explain every setting that is changed without a restart."""
    return reference.runtime_settings()


def metrics(_: Tree) -> str:
    """Explain every metric."""
    return reference.metrics()


def event_types(_: Tree) -> str:
    """List every event type."""
    return reference.event_types()


def client_operations(tree: Tree) -> str:
    """List every operation with its method, command and example."""
    return client_table(tree)


def decisions(tree: Tree) -> str:
    """List the decision records by number: their titles say what was decided."""
    paths = sorted(path for path, _ in select(tree, (DECISIONS,), ".md"))
    return "\n".join(
        f"- [{_title(tree[path])}]({path.removeprefix(DECISIONS)}){_superseded(tree[path])}"
        for path in paths
        if not path.endswith("/index.md")
    )


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def _superseded(text: str) -> str:
    """Repeat what a decision says of those that supersede it, without the reason."""
    found = _SUPERSEDED.search(text)
    return f": {found[1].lower()} by {', '.join(_NUMBER.findall(found[2]))}" if found else ""


def _api_page(group: str, _: Tree) -> str:
    return api_reference.page(group)


BLOCKS: Final[dict[str, Callable[[Tree], str]]] = {
    "job-states": job_states,
    "payment-states": payment_states,
    "error-codes": error_codes,
    "process-settings": process_settings,
    "runtime-settings": runtime_settings,
    "metrics": metrics,
    "event-types": event_types,
    "event-fields": lambda _: reference.event_fields(),
    "client-operations": client_operations,
    "decisions": decisions,
    "api-index": lambda _: api_reference.index(),
    "scopes": lambda _: api_reference.scopes(),
    "job-failures": lambda _: reference.job_failures(),
    "payment-failures": lambda _: reference.payment_failures(),
    "limits": lambda _: limits.table(),
    "commands": lambda _: reference.commands(),
    **{
        name: partial(_api_page, group)
        for group, name in zip(
            api_reference.operations(), api_reference.blocks().values(), strict=True
        )
    },
}
PLACES: Final = {
    "ARCHITECTURE.md": ("job-states", "payment-states"),
    f"{DECISIONS}index.md": ("decisions",),
    "docs/reference/settings.md": ("process-settings", "runtime-settings"),
    "docs/reference/metrics.md": ("metrics",),
    "docs/reference/events.md": ("event-types", "event-fields"),
    "docs/reference/client.md": ("client-operations",),
    "docs/reference/cli.md": ("commands",),
    "docs/reference/failure-codes.md": ("job-failures", "payment-failures"),
    "docs/reference/limits.md": ("limits",),
    "docs/reference/scopes.md": ("scopes",),
    f"{api_reference.FOLDER}index.md": ("api-index",),
    **{path: (name,) for path, name in api_reference.blocks().items()},
}
"""Which page must hold which blocks: a page that loses one is a finding too."""


def rewrite(page: str, tree: Tree) -> str:
    """Put what the code says between the marks of a page."""

    def fill(block: re.Match[str]) -> str:
        body = BLOCKS[block["name"]](tree) if block["name"] in BLOCKS else block["body"].rstrip()
        return f"{block['begin']}{body}\n{block['end']}"

    return _BLOCK.sub(fill, page)


def stale_blocks(tree: Tree) -> Iterator[Finding]:
    """Find generated parts that differ from the code, and pages that lost theirs."""
    for path, text in select(tree, ("",), ".md"):
        for block in _BLOCK.finditer(text):
            if rewrite(block[0], tree) != block[0]:
                line = line_of(text, block.start())
                yield Finding(path, line, f"{block['name']} is out of date: run `make docs`")
    for path, names in PLACES.items():
        found = {block["name"] for block in _BLOCK.finditer(tree.get(path, ""))}
        for name in names:
            if name not in found:
                yield Finding(path, 1, f"the mark `<!-- generated: {name} -->` is missing")


def main() -> None:
    """Rewrite every page that holds a generated part."""
    root = Path(__file__).parents[2]
    pages = zip(api_reference.operations(), api_reference.blocks().items(), strict=True)
    for group, (path, name) in pages:
        if not (root / path).exists():
            (root / path).write_text(api_reference.new_page(group, name))
    tree = read_tree(root)
    for path, text in select(tree, ("",), ".md"):
        page = rewrite(text, tree)
        if page != text:
            (root / PurePosixPath(path)).write_text(page)


def _marked(path: str, spoil: str = "") -> Tree:
    marks = "".join(f"<!-- generated: {name} -->\n{spoil}<!-- end -->\n" for name in PLACES[path])
    return {path: marks}


def _filled(*pages: Tree) -> Tree:
    tree = {path: text for page in pages for path, text in page.items()}
    return {path: rewrite(text, tree) for path, text in tree.items()}


_MAP: Final = _marked("ARCHITECTURE.md")
_INDEX: Final = {
    key: text for path in PLACES if path != "ARCHITECTURE.md" for key, text in _marked(path).items()
}
_DECISION: Final = {f"{DECISIONS}0001-a.md": "# 0001 A\n"}

RULES: Final = (
    Rule(
        "stale_blocks",
        stale_blocks,
        bad=(
            {},
            {**_MAP, **_INDEX},
            _filled(_MAP),
            {**_filled(_MAP, _INDEX), **_DECISION},
            {k: text.replace("RUNNING", "BUSY") for k, text in _filled(_MAP, _INDEX).items()},
        ),
        good=(
            _filled(_MAP, _INDEX),
            _filled(_marked("ARCHITECTURE.md", "old\n"), _INDEX, _DECISION),
        ),
    ),
)

if __name__ == "__main__":
    main()
