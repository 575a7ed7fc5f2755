"""What is loaded when: a start waits for nothing that it does not need."""

import subprocess
import sys

import pytest

BROKERS = {"nats", "aio_pika", "redis", "confluent_kafka"}


@pytest.mark.parametrize(
    ("module", "never"),
    [
        ("postdate.cli.main", {"aiohttp", "asyncpg", "jinja2", "structlog", "rich"}),
        ("postdate.cli.commands.job", {"asyncpg", "jinja2", "structlog", "rich"}),
        ("postdate.node.serve", {"aiohttp", "jinja2"}),
        ("postdate.node.process", {"aiohttp", "jwt", "opentelemetry.sdk", *BROKERS}),
    ],
)
def test_a_module_loads_only_what_it_needs(module: str, never: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert module in said.stdout.split()
    assert not never.intersection(said.stdout.split())


def test_a_server_starts_without_rich_and_can_load_it_later() -> None:
    code = (
        "import sys; from postdate.cli.main import _load_structlog; _load_structlog();"
        "import postdate.node.serve, postdate.node.process;"
        "assert 'rich' not in sys.modules; import rich; print(rich.__name__)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert said.stdout == "rich\n"


def test_a_broker_is_loaded_when_it_is_used() -> None:
    code = (
        "import sys; from postdate.delivery.broker_connections import Installed;"
        "found = Installed();"
        "assert 'nats' not in sys.modules; print(found['nats'].name, *sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert said.stdout.startswith("nats ")
    assert "nats" in said.stdout.split()
    assert not (BROKERS - {"nats"}).intersection(said.stdout.split())


def test_help_says_what_each_command_is_for() -> None:
    command = [sys.executable, "-c", "from postdate.cli.main import main; main()", "--help"]
    said = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert "freeze and close accounts." in said
    assert "Compare all tables" in said
