"""The TypeScript client is generated, built and tested against a real server, where npm answers."""

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from conftest import scratch
from postdate.api.endpoints import ENDPOINTS
from postdate.client.pytest_plugin import PostdateServer
from postdate.http.openapi import document

PACKAGE = Path(__file__).parents[2] / "packages/client-ts"
OURS = ("node_modules", "dist", "openapi.json", "schema.d.ts")
SECONDS = 180

pytestmark = pytest.mark.process


def run(directory: Path, *command: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_it_is_built_from_the_document_and_works(postdate_server: PostdateServer) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    with scratch() as directory:
        built = directory / "client"
        shutil.copytree(PACKAGE, built, ignore=shutil.ignore_patterns(*OURS))
        (built / "openapi.json").write_bytes(msgspec.json.encode(document(ENDPOINTS, "0")))
        installed = run(built, npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts")
        if installed.returncode:
            pytest.skip(f"npm does not answer: {installed.stderr[-200:]}")
        made = run(built, npm, "run", "build")
        assert made.returncode == 0, made.stdout + made.stderr
        ran = run(
            built,
            npm,
            "test",
            POSTDATE_URL=postdate_server.url,
            POSTDATE_API_KEY=postdate_server.key,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "pass 8" in ran.stdout, ran.stdout
