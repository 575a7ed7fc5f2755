"""The OpenAPI document passes the linters that its readers use, where npm answers."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from conftest import scratch
from postdate.api.endpoints import ENDPOINTS
from postdate.http.openapi import document

LINTERS = {"@redocly/cli": "2.77.0", "@stoplight/spectral-cli": "6.16.3"}
INSTALL_SECONDS = 120
SPECTRAL_RULES = {
    "extends": ["spectral:oas"],
    "rules": {
        "oas3-operation-security-defined": "off",  # OpenAPI 3.1 allows scopes of a bearer key
        "info-contact": "off",  # whoever runs the server is the contact
    },
}
REDOCLY_RULES = {
    "extends": ["recommended"],
    "rules": {"operation-4xx-response": "off"},  # the receipt keys are open to everybody
    "telemetry": "off",
}


def installed(folder: Path) -> Path:
    """Install the linters into a folder that stays; its last file says which versions it has."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    wanted, stamp = json.dumps({"dependencies": LINTERS}), folder / "installed.json"
    if stamp.exists() and stamp.read_text() == wanted:
        return folder
    (folder / "package.json").write_text(wanted)
    command = (npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent")
    try:
        subprocess.run(command, cwd=folder, check=True, timeout=INSTALL_SECONDS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        pytest.skip("npm does not answer")
    stamp.write_text(wanted)
    return folder


@pytest.fixture(scope="module")
def linters(request: pytest.FixtureRequest) -> Iterator[Path]:
    cache = request.config.cache
    with scratch() as directory:
        kept = installed(cache.mkdir("openapi-linters") if cache else directory)
        if kept != directory:
            (directory / "node_modules").symlink_to(kept / "node_modules")
        (directory / "openapi.json").write_bytes(msgspec.json.encode(document(ENDPOINTS, "0")))
        (directory / "spectral.json").write_text(json.dumps(SPECTRAL_RULES))
        (directory / "redocly.yaml").write_text(json.dumps(REDOCLY_RULES))
        yield directory


@pytest.mark.parametrize(
    "command",
    [
        ("spectral", "lint", "openapi.json", "--ruleset=spectral.json", "--fail-severity=warn"),
        ("redocly", "lint", "openapi.json", "--max-problems=20", "--format=json"),
    ],
    ids=lambda command: command[0],
)
def test_a_linter_finds_nothing(linters: Path, command: tuple[str, ...]) -> None:
    program = str(linters / "node_modules" / ".bin" / command[0])
    ended = subprocess.run(
        (program, *command[1:]),
        cwd=linters,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert '"severity": "warn"' not in ended.stdout, ended.stdout
