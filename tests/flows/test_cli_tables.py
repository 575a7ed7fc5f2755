"""Every command that reads prints words, on a tenant that has lived: never Python's own text."""

import re

from conftest import Api
from postdate.cli.command_table import NOUN_HELP
from postdate.cli.noun import operations
from postdate.client.operation import Operation
from support import full_tenant
from support.command import run_command
from support.full_tenant import ROWS

REPR = re.compile(r"\{'|\['|\bNone\b|\bTrue\b|\bFalse\b|datetime\.|UUID\(|<\w+\.\w+:|\w+\(\w+=")
"""What Python writes of an object, and no person does."""

FEWEST = 38
"""How many of these commands must have answered; the others need more than a name."""


THINGS = {
    re.sub(r":\w+}", "}", route.removeprefix("GET ")): row.thing for route, row in ROWS.items()
}
"""What of the tenant a path names."""


def readers() -> list[tuple[str, str, Operation]]:
    """Give each command that reads: its noun, its words, and the operation."""
    return [
        (noun, words, operation)
        for noun in NOUN_HELP
        for operation, words in operations(noun)
        if operation.method == "GET"
    ]


def test_the_pattern_finds_what_python_writes() -> None:
    for text in ("['admin']", "{'type': 'worker'}", "None", "Job(id=3)", "<Status.DONE: 1>"):
        assert REPR.search(text), text
    assert not REPR.search('admin, jobs:read  yes  2031-01-01T00:00:00Z  {"a": 1}')


async def test_no_table_has_python_in_it(api: Api) -> None:
    full = await full_tenant.build(api)
    printed = {}
    for noun, words, operation in readers():
        thing = THINGS.get(operation.path, "")
        given = [str(getattr(full, thing))] if thing else []
        ran = await run_command(api, noun, *words.split(), *given)
        if ran.code == 0:
            printed[f"{noun} {words}"] = ran.text + ran.err
    found = {name: REPR.findall(text) for name, text in printed.items() if REPR.search(text)}
    assert found == {}
    assert len(printed) >= FEWEST, sorted(printed)
