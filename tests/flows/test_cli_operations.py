"""Every operation of the API is a command: `postdate NOUN VERB PARTS --FIELD VALUE`."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from postdate.api.endpoints import ENDPOINTS
from postdate.cli import answer, completion, output
from postdate.cli.command_table import NOUN_HELP, OWN
from postdate.cli.main import COMMANDS, app, load_all
from postdate.cli.noun import find, group_operations, operations
from postdate.cli.operation_command import OperationCommand
from postdate.cli.option import TEXTS, fields_of
from postdate.client import Client
from postdate.client.operation import Operation
from postdate.core.operation_name import NOUNS, client_method, command_words, option_name
from postdate.http.openapi import document
from support.command import commands

DOCUMENT = document(ENDPOINTS, "0")
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
BY_NAME = {endpoint.handler.__name__: endpoint for endpoint in ENDPOINTS}
SOME_ID = "01a1e1c8-dd23-7001-bd68-723753d52271"
INSTANT = "2031-01-01T00:00:00Z"

OBJECTS: dict[str, Any] = {
    "destination": {"type": "webhook", "url": "https://example.com/"},
    "filter": {"lane": "mail"},
    "to": {"run_at": INSTANT},
    "template": {"job": {"destination": {"type": "worker"}, "lane": "mail"}},
    "jobs": [{"destination": {"type": "worker"}}],
    "payments": [{"amount": 5}],
    "changes": [{"type": "pause_lane", "lane": "mail"}],
}
NEEDED: dict[str, dict[str, Any]] = {
    "schedule_payment": {"delay_seconds": 5},
    "redrive_dead_letters": {"job_ids": [SOME_ID]},
    "purge_dead_letters": {"job_ids": [SOME_ID]},
    "create_job": {"lane": "mail"},
}
"""What a command asks for beside the fields that the API requires."""
ALONE = {"delay_seconds", "scheduled_time", "run_at", "filter", "cron", "every_seconds", "rrule"}
"""Fields of which one is given, or which replace the needed one."""
BY_ITSELF = {("redrive_dead_letters", "cursor"), ("purge_dead_letters", "cursor")}
"""Fields that the command gives itself: it follows the pages to their end."""
ONE_OF_MANY = {"purge_dead_letter"}
"""Operations on one thing whose command is that on many, with one id."""


class SentError(Exception):
    """Stands for the answer to a recorded request."""


def operation_of(name: str) -> tuple[Operation, str]:
    endpoint = BY_NAME[name]
    group, method = client_method(name, endpoint.tag, endpoint.path)
    words = command_words(name, group, method)
    return next(each for each, _ in group_operations(group) if each.name == name), words


def documented() -> Iterator[tuple[str, str, dict[str, Any], list[str]]]:
    """Go through the fields of the API's own document: operation, field, schema, what is needed."""
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            fields, required = inputs(operation)
            for field in [*fields, ""]:
                yield operation["operationId"], field, fields, required


def inputs(operation: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    found = {p["name"]: p["schema"] for p in operation["parameters"] if p.get("in") == "query"}
    if "requestBody" not in operation:
        return found, []
    body = resolved(operation["requestBody"]["content"]["application/json"]["schema"])
    return found | body["properties"], body.get("required", [])


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].rpartition("/")[2]]
    return schema


FORMATTED = {"date-time": INSTANT, "uuid": SOME_ID}
SAMPLES: dict[str, Any] = {"integer": 5, "number": 2.5, "boolean": True, "string": "text"}


def sample(field: str, schema: dict[str, Any]) -> Any:
    """Make a value of a field by its schema."""
    branches = [resolved(each) for each in schema.get("anyOf", [schema])]
    first = next(each for each in branches if each.get("type") != "null")
    if field in OBJECTS and first.get("type") != "string":
        return OBJECTS[field]
    if "enum" in first:
        return first["enum"][0]
    if first.get("format") in FORMATTED:
        return FORMATTED[first["format"]]
    if first.get("type") == "array":
        return [sample("", first["items"])]
    return SAMPLES.get(first.get("type", ""), {"a": 1})


def words_of(field: str, value: Any) -> list[str]:
    name = option_name(field)
    match value:
        case True:
            return [name]
        case [str() | int(), *_]:
            return [name, str(value[0])]
        case dict() | list():
            return [name, msgspec.json.encode(value).decode()]
        case _:
            return [name, str(value)]


def has_own_command(name: str, field: str) -> bool:
    by_itself = (name, field) in BY_ITSELF or name in ONE_OF_MANY
    return not by_itself and not operation_of(name)[1].startswith(("api ", "tenant "))


LINES = [
    pytest.param(name, field, fields, required, id=f"{name}-{field or 'required'}")
    for name, field, fields, required in documented()
    if has_own_command(name, field)
]


@pytest.mark.parametrize(("name", "field", "fields", "required"), LINES)
def test_a_field_is_an_option_of_its_name(
    name: str,
    field: str,
    fields: dict[str, Any],
    required: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operation, command = operation_of(name)
    given = NEEDED.get(name, {}) if field not in ALONE else {}
    wanted = {each: sample(each, fields[each]) for each in required} | given
    wanted |= {field: sample(field, fields[field])} if field else {}
    parts = re.findall(r"\{(\w+)\}", operation.path)
    words = [*command.split(), *(SOME_ID for _ in parts)]
    words += [word for each, value in wanted.items() for word in words_of(each, value)]
    if operation.method == "PATCH" and not wanted:
        return
    sent = record(words, monkeypatch)
    assert sent[0] == operation
    asked = {**dict.fromkeys(parts, SOME_ID), **wanted}
    assert {each: sent[1].get(each) for each in asked} == asked


def record(words: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[Operation, dict[str, Any]]:
    found: list[tuple[Operation, dict[str, Any]]] = []

    def fetch(_: Client, operation: Operation, given: dict[str, Any]) -> bytes:
        found.append((operation, given))
        raise SentError

    monkeypatch.setenv("POSTDATE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("POSTDATE_API_KEY", "k")
    monkeypatch.setattr(Client, "fetch", fetch)
    with pytest.raises(SentError):
        app(output.take(words), exit_on_error=False, print_error=False)
    return found[0]


def test_the_operators_commands_take_what_their_operations_need() -> None:
    mine = {name: operation_of(name)[1] for name in BY_NAME}
    tenants = {name: words for name, words in mine.items() if words.startswith("tenant ")}
    assert set(tenants) == {"create_tenant", "list_tenants", "disable_tenant", "enable_tenant"}
    for line in (
        f"{tenants['create_tenant']} acme --test --clock-at {INSTANT}",
        tenants["list_tenants"],
        f"{tenants['disable_tenant']} acme --note unpaid",
        f"{tenants['enable_tenant']} acme",
    ):
        command, bound, *_ = app.parse_args(line.split(), exit_on_error=False, print_error=False)
        assert command is not None
        assert bound is not None


def test_every_operation_has_a_command_that_exists() -> None:
    load_all()
    known = dict(commands(app))
    for name in BY_NAME:
        words = operation_of(name)[1]
        assert words in known or words == f"api {name}"


def test_every_field_has_a_text_of_its_own() -> None:
    without = [
        f"{operation.name} {field.name}"
        for group in NOUNS
        for operation, _ in group_operations(group)
        for field in fields_of(operation)
        if not field.text and field.name not in TEXTS
    ]
    assert without == []


def test_no_option_is_taken_by_the_options_of_every_command() -> None:
    for group in NOUNS:
        for operation, _ in group_operations(group):
            for each in OperationCommand(operation).options:
                words = each.parameter.annotation.__metadata__[-1].name
                assert not {*words} & {*output.FLAGS, *output.VALUES}


def kinds(*, declared: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for group in NOUNS:
        for operation, _ in group_operations(group):
            if operation.columns or not declared:
                found |= {kind.__name__: kind for kind in answer.lists_of(operation).values()}
    return found


def test_a_column_is_a_field_of_what_is_listed() -> None:
    """What a noun declares is checked where it is declared, and stands nowhere else."""
    declared = {kind.__name__ for kind in kinds(declared=True).values()}
    assert declared >= {"Destination", "Lane", "Subscription"}
    assert set(answer.COLUMNS) <= set(kinds()) - declared
    for name, columns in answer.COLUMNS.items():
        fields = {each.encode_name for each in msgspec.structs.fields(kinds()[name])}
        assert {*columns} <= fields, name


def test_a_completed_name_is_a_field_of_what_is_listed() -> None:
    for group, name, about in completion.OFFERED.values():
        page = next(op for op, _ in group_operations(group) if op.name == f"list_{group}")
        kind = answer.lists_of(page)[group]
        assert {name, about} <= {each.name for each in msgspec.structs.fields(kind)}


def test_what_was_done_is_said_in_english() -> None:
    silent = {
        operation.name
        for group in NOUNS
        for operation, _ in group_operations(group)
        if operation.returns is None
    }
    assert {answer.done(name) for name in silent} <= {
        "deleted", "revoked", "cleared", "disabled", "enabled", "purged",
    }  # fmt: skip


def test_a_noun_has_commands_and_every_own_module_a_noun() -> None:
    assert set(OWN) <= set(NOUN_HELP) <= set(COMMANDS)
    for noun in NOUN_HELP:
        assert list(operations(noun))
    assert find("lane", "pause_lane").path == "/lanes/{lane}/pause"
