"""What is loaded when: a start waits for nothing that it does not need."""

import subprocess
import sys

import pytest

BROKERS = {"nats", "aio_pika", "redis", "confluent_kafka"}


@pytest.mark.parametrize(
    ("module", "never"),
    [
        ("postdate.cli.main", {"aiohttp", "asyncpg", "jinja2", "rich"}),
        ("postdate.cli.commands.job", {"asyncpg", "jinja2", "rich"}),
        ("postdate.node.serve", {"aiohttp", "jinja2", "prometheus_client", "rich"}),
        ("postdate.node.process", {"aiohttp", "jwt", "rich", "opentelemetry.sdk", *BROKERS}),
    ],
)
def test_a_module_loads_only_what_it_needs(module: str, never: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert module in said.stdout.split()
    assert not never.intersection(said.stdout.split())


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
