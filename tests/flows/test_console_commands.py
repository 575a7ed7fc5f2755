"""What the console shows as command, as `curl` and as Python: for every form and every button."""

import ast
import inspect
import json
import re
import shlex
import subprocess
from collections.abc import Mapping
from importlib.resources import files
from operator import attrgetter
from typing import Any

import msgspec
import pytest

from conftest import Api
from postdate.cli import operation_command, output
from postdate.cli.commands import api as api_command
from postdate.cli.main import app
from postdate.client import Client
from postdate.client.call import Method
from postdate.client.operation import Operation
from postdate.console.button import Button
from postdate.console.button_table import BUTTON_BY_KEY
from postdate.console.form_field import FormField
from postdate.console.operation import ENDPOINT_BY_NAME
from postdate.console.shown_request import command_of
from support.plain_browser import Browser

SOME_ID = "01a1e1c8-dd23-7001-bd68-723753d52271"
OTHER_ID = "01a1e1c8-dd23-7001-bd68-723753d52272"
BY_KIND = {"whole": "5", "decimal": "5", "datetime-local": "2030-01-01T09:00"}
BY_NAME = {"job_ids": f"{SOME_ID}\n{OTHER_ID}", "scopes": "jobs:read", "name": "shop"}
BY_END = {
    "schedule_id": SOME_ID,
    "account_id": "alice",
    "currency": "EUR",
    "accounts": "alice",
    "lane": "mail",
}
JSON = {
    "changes": '[{"type": "halt"}]',
    "per_key": '{"max_running": 2}',
    "retry": '{"max_attempts": 2}',
}
EXCLUDED = re.compile(r"^(delay_seconds|every_seconds|rrule|template\.payment\..*)$")
MANY = {"purge_dead_letter": "purge_dead_letters"}
"""Operations that share the command of the same for many."""
BUTTONS = list(BUTTON_BY_KEY.values())


def in_path(template: str) -> dict[str, str]:
    parts = re.findall(r"\{(\w+)(:uuid)?\}", template)
    return {name: SOME_ID if kind else "some name" for name, kind in parts}


def typed(field: FormField) -> str:
    if field.kind == "choice":
        return field.choices[0]
    if field.kind == "json":
        return JSON.get(field.name, '{"to": "ann\'s"}')
    end = next((text for end, text in BY_END.items() if field.name.endswith(end)), None)
    return BY_KIND.get(field.kind) or BY_NAME.get(field.name) or end or 'it\'s "late"'


def values_of(button: Button) -> dict[str, str]:
    """Fill every field in, but one of those that exclude each other."""
    fields = [field for field in button.form_fields if not EXCLUDED.search(field.name)]
    return {field.name: typed(field) for field in fields}


class SentError(Exception):
    """Ends a command at its first request."""


def check_cli(lines: str, operation: str) -> Any:
    """Run the commands as far as their first request, and return the body of the last."""
    fields: dict[str, Any] = {}

    def send(called: Operation, given: Mapping[str, Any]) -> None:
        assert called.name == MANY.get(operation, operation)
        fields.update(called.fields(given))
        raise SentError

    def call(method: str, _: str, body: Any, **__: Any) -> None:
        assert method == ENDPOINT_BY_NAME[operation].method
        fields.update(body or {})
        raise SentError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operation_command, "send", send)
        patch.setattr(api_command, "call", call)
        for line in lines.splitlines():
            words = output.take(shlex.split(line)[1:])
            command, bound, *_ = app.parse_args(words, exit_on_error=False, print_error=False)
            with pytest.raises(SentError):
                command(*bound.args, **bound.kwargs)
    return fields


def check_curl(lines: str, operation: str) -> Any:
    """Parse the first request, and return its body."""
    endpoint = ENDPOINT_BY_NAME[operation]
    words = shlex.split(re.split(r"\n(?=curl)", lines)[0])
    assert words[:4] == ["curl", "-s", "-X", endpoint.method]
    assert "{" not in words[4]
    assert ("Idempotency-Key: $(uuidgen)" in words) == bool(endpoint.idempotency)
    return msgspec.json.decode(words[words.index("-d") + 1]) if "-d" in words else {}


def check_python(text: str, operation: str) -> None:
    """Compile it, and bind what it gives to the arguments of the method that it names."""
    compile(text, "shown", "exec")
    first, *calls = ast.parse(text).body
    assert ast.unparse(first) == "from postdate.client import Client"
    for line in calls:
        assert isinstance(line, ast.Expr)
        assert isinstance(line.value, ast.Call)
        name = ast.unparse(line.value.func).removeprefix("Client().")
        with Client("http://127.0.0.1:1", api_key="x") as client:
            method = attrgetter(name)(client)
        assert callable(method)
        group, _, called = name.partition(".")
        described = inspect.getattr_static(type(getattr(client, group)), called)
        assert isinstance(described, Method)
        assert described.operation is not None
        assert described.operation.name == operation
        given = {one.arg: ast.literal_eval(one.value) for one in line.value.keywords if one.arg}
        described.operation.signature.bind(*map(ast.literal_eval, line.value.args), **given)


def without_steps(body: dict[str, Any]) -> dict[str, Any]:
    """Leave out by which a command first makes a dry run, and then goes on call by call."""
    return {name: value for name, value in body.items() if name not in {"dry_run", "cursor"}}


def check(shown: list[str], operation: str) -> Any:
    cli, curl, python = shown
    check_python(python, operation)
    body = check_curl(curl, operation)
    sent = check_cli(cli, operation)
    if operation in MANY:
        assert sent["job_ids"] == [SOME_ID]
    else:
        assert without_steps(sent) == without_steps(body)
    return body


def named(button: Button) -> str:
    return button.key


@pytest.mark.parametrize("button", BUTTONS, ids=named)
def test_every_button_shows_its_request_in_three_ways(button: Button) -> None:
    path, values = in_path(button.path), values_of(button)
    ways: list[tuple[str, list[str]]] = [(button.operation, [])]
    if button.each is not None:
        own = [] if button.each.operation == button.operation else ways
        ways = [*own, (button.each.operation, [SOME_ID, OTHER_ID])]
    for operation, chosen in ways:
        body = check(button.commands(path, values, chosen), operation)
        shape = ENDPOINT_BY_NAME[operation].body
        if shape is not None:
            # The API takes what is shown.
            msgspec.json.decode(msgspec.json.encode(body), type=shape)
        else:
            assert body == {}


@pytest.mark.parametrize("button", BUTTONS, ids=named)
def test_before_anything_is_typed_an_ellipsis_stands_for_what_must_be(button: Button) -> None:
    shown = button.commands(in_path(button.path), {})
    if not shown or button.stored:
        return
    needed = [field for field in button.form_fields if field.required] or (
        button.operation == "create_schedule"
    )
    for line in shown:
        assert ("…" in line) == bool(needed), line
    check_python(shown[2], button.operation)
    check_curl(shown[1], button.operation)


def test_a_bulk_action_shows_the_whole_filter_and_nothing_else() -> None:
    """A line that dropped a part of the filter would touch more than the page shows."""
    given = {"filter.schedule_id": SOME_ID, "filter.due_before": "2030-01-01T09:00"}
    cli, curl, python = BUTTON_BY_KEY["jobs/bulk/cancel"].commands({}, given)
    body = {
        "filter": {"schedule_id": SOME_ID, "due_before": "2030-01-01T09:00:00+00:00"},
        "reason": "…",
    }
    assert check_curl(curl, "cancel_jobs") == body
    assert f"filter={body['filter']!r}" in python
    assert shlex.split(cli)[1:] == [
        *("job", "cancel-many", "--reason", "…", "--body"),
        json.dumps({"filter": body["filter"]}),
    ]


def test_of_selected_jobs_each_has_its_line() -> None:
    cli, curl, python = BUTTON_BY_KEY["jobs/bulk/cancel"].commands({}, {}, [SOME_ID, OTHER_ID])
    assert cli.splitlines() == [f"postdate job cancel {one}" for one in (SOME_ID, OTHER_ID)]
    assert curl.count("curl -s -X POST") == 2
    assert python.splitlines()[1:] == [
        f"Client().jobs.cancel('{one}')" for one in (SOME_ID, OTHER_ID)
    ]


def test_what_is_shown_is_quoted() -> None:
    pause = BUTTON_BY_KEY["lanes/pause"]
    cli, curl, python = pause.commands({"lane": "a b"}, {"note": 'it\'s "late"'})
    assert cli == "postdate lane pause 'a b' --note 'it'\"'\"'s \"late\"'"
    assert "/lanes/a%20b/pause" in curl
    assert check_curl(curl, "pause_lane") == {"note": 'it\'s "late"'}
    assert python.endswith("""Client().lanes.pause('a b', note='it\\'s "late"')""")


ODD = ["9" * 30, "9" * 5000, "1e999", "-5", "{0}", "[x]", "\x00", "\u0663", "\ufeff", "null"]


@pytest.mark.parametrize("text", ODD, ids=lambda text: repr(text)[:12])
def test_whatever_is_typed_is_shown_or_refused_but_breaks_no_page(text: str) -> None:
    for button in BUTTONS:
        values = dict.fromkeys(values_of(button), text)
        for chosen in ([], [text]):
            assert all(button.commands(in_path(button.path), values, chosen) or [True])


def test_a_terminal_obeys_nothing_of_what_is_pasted() -> None:
    """A link may fill a form in: Ctrl-U empties the line, and the rest would be a command."""
    pause = BUTTON_BY_KEY["lanes/pause"]
    note = "it's\x15rm -rf ~\n\x7f \u202e é\\"
    shown = pause.commands({"lane": "mail"}, {"note": note})
    assert all(line.isprintable() for text in shown for line in text.splitlines())
    cli, curl, _ = shown
    assert len(cli.splitlines()) == 1
    assert check_curl(curl, "pause_lane") == {"note": note}
    bash = ["bash", "-c", f'postdate() {{ printf %s "${{!#}}"; }}; {cli}']
    told = subprocess.run(bash, env={"LC_ALL": "C.UTF-8"}, capture_output=True, check=True)
    assert told.stdout.decode() == note


async def test_a_confirmation_shows_python_too(api: Api) -> None:
    made = await api.call("POST", "/jobs", {"destination": {"type": "worker"}, "delay_seconds": 99})
    job_id = made.body["job_id"]
    async with Browser(api) as browser:
        await browser.sign_in()
        shown = (await browser.get(f"/jobs/{job_id}/cancel")).text
        assert f"Client().jobs.cancel(&#39;{job_id}&#39;)" in shown
        assert "The same from a shell and from Python" in shown
        # After a dry run of what was selected, each of them has its line.
        shown = (await browser.get(f"/jobs/bulk/cancel?jobs={job_id}&dry=1")).text
        assert f"Client().jobs.cancel(&#39;{job_id}&#39;)" in shown
        # A refused plan is not in the address: no line may stand there that would touch all jobs.
        refused = await browser.confirm(f"/jobs/bulk/cancel?jobs={job_id}&dry=1", reason=" ")
        assert refused.status == 422
        assert "Client()" not in refused.text


async def test_an_expired_dry_run_shows_no_line_for_more_than_was_selected(api: Api) -> None:
    spec = {"destination": {"type": "worker"}, "delay_seconds": 99, "lane": "mail"}
    job_id = (await api.call("POST", "/jobs", spec)).body["job_id"]
    async with Browser(api) as browser:
        await browser.sign_in()
        address = f"/jobs/bulk/cancel?filter.lane=mail&jobs={job_id}&dry=1"
        refused = await browser.confirm(address, reason="late", once="forgotten since")
        assert refused.status == 409
        assert "This dry run has expired." in refused.text
        assert "postdate job cancel-many" not in refused.text
        assert "Client()" not in refused.text


def test_the_commands_that_pages_show_are_those_of_operations() -> None:
    folder = files("postdate.console").joinpath("templates")
    pages = "".join(each.read_text() for each in folder.iterdir())
    shown = set(re.findall(r"\bpostdate ([a-z-]+ [a-z-]+) ", pages))
    assert len(shown) > 5
    assert shown <= {command_of(endpoint) for endpoint in ENDPOINT_BY_NAME.values()}
