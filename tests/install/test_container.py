"""The image: its command, health check and end, here and, where it can be built, in the image."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from conftest import app_dsn, eventually, owner_dsn, scratch
from postdate.database.embedded import Embedded
from support import container_file
from support.container_file import INSIDE, ROOT
from support.distribution import run, uv
from support.serve_process import Served, free_port

STOP_SECONDS = 10.0
MAX_BYTES = 230_000_000
"""What the image may add to its base; 199 MB were measured."""

BUILD_SECONDS = 900
PULL_SECONDS = 120


def test_what_the_dependencies_are_installed_from_is_copied_first(tmp_path: Path) -> None:
    """The first layer has no sources: uv must be content with the files copied until then."""
    for name, rest in container_file.instructions():
        if name == "RUN" and "uv sync" in rest:
            break
        if name == "COPY":
            *files, place = rest.split()
            (tmp_path / place).mkdir(parents=True, exist_ok=True)
            for file in files:
                shutil.copy(ROOT / file, tmp_path / place)
    members = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["workspace"]
    assert all((tmp_path / each / "pyproject.toml").exists() for each in members["members"])
    read = ("export", "--locked", "--offline", "--quiet", "--all-extras", "--no-emit-workspace")
    run(uv(), *read, "--directory", tmp_path)


def here(words: list[str]) -> list[str]:
    """Give the words of the image for this machine."""
    beside = Path(sys.executable).parent
    return [re.sub(f"^{INSIDE}", f"{beside}/", word) for word in words]


@contextmanager
def serving(data: Path, **settings: str) -> Iterator[tuple[Served, dict[str, str]]]:
    """Describe the image's command on a data directory of this machine."""
    port = str(free_port())
    declared = {"POSTDATE_PORT": port, "POSTDATE_DATA_DIR": str(data)}
    env = container_file.environment() | declared | settings
    command, *words = here(container_file.command())
    assert words == ["serve"]
    yield Served(data, port=int(port), env=env, command=Path(command)), env


def is_healthy(env: dict[str, str]) -> bool:
    """Ask as the image does."""
    ran = subprocess.run(
        here(container_file.health_check()), env=os.environ | env, check=False, timeout=30,
        capture_output=True,
    )  # fmt: skip
    return ran.returncode == 0


@pytest.mark.process
async def test_the_command_of_the_image_is_healthy_and_ends_in_ten_seconds() -> None:
    with scratch() as directory, serving(directory / "data") as (served, env):
        assert not await asyncio.to_thread(is_healthy, env)
        await served.start()
        try:
            await served.ready()
            assert await asyncio.to_thread(is_healthy, env)
        finally:
            began = time.monotonic()
            assert await served.stop() == 0
        assert time.monotonic() - began < STOP_SECONDS
        assert not await asyncio.to_thread(is_healthy, env)


@pytest.mark.process
async def test_the_health_check_asks_a_process_without_the_api_too(
    server: Embedded, database_name: str
) -> None:
    own = {
        "POSTDATE_METRICS_PORT": str(free_port()),
        "POSTDATE_DATABASE_URL": app_dsn(server, database_name),
        "POSTDATE_OWNER_DATABASE_URL": owner_dsn(server, database_name),
    }
    with scratch() as directory, serving(directory / "data", **own) as (worker, env):
        await worker.start("--role", "worker")
        try:
            await eventually(lambda: asyncio.to_thread(is_healthy, env), 30, 0.2)
        finally:
            assert await worker.stop() == 0


def builder() -> str:
    """Find what builds images without a daemon, and the base; skip where one of them is not."""
    found = shutil.which("buildah")
    if found is None:
        pytest.skip("buildah is not here (Debian: apt-get install buildah)")
    has = subprocess.run(
        [found, "inspect", "--type", "image", container_file.base()], capture_output=True,
        check=False,
    )  # fmt: skip
    if has.returncode:
        pull = [found, "pull", "--quiet", container_file.base()]
        pulled = subprocess.run(
            pull, capture_output=True, text=True, check=False, timeout=PULL_SECONDS
        )
        if pulled.returncode:
            pytest.skip(f"the base image is not to be had: {pulled.stderr.strip()[-200:]}")
    return found


@contextmanager
def built() -> Iterator[tuple[str, str]]:
    """Build the image as its head says; give the builder and the image's name."""
    tool, name = builder(), f"localhost/postdate-test-{uuid4().hex[:8]}"
    build = [tool, "build", "--quiet", "--isolation", "chroot", "--format", "docker"]
    ran = subprocess.run(
        [*build, "-f", str(container_file.FILE), "-t", name, str(ROOT)],
        capture_output=True, text=True, check=False, timeout=BUILD_SECONDS,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    container = run(tool, "from", name).strip()
    try:
        yield tool, container
    finally:
        subprocess.run([tool, "rm", container], capture_output=True, check=False)
        subprocess.run([tool, "rmi", name], capture_output=True, check=False)


def bytes_of(tool: str, image: str) -> int:
    """Give the size of an image, in the words of the builder: `496 MB`."""
    listed = run(tool, "images", "--format", "{{.Size}}", image).split()
    return int(float(listed[0]) * {"MB": 10**6, "GB": 10**9}[listed[1]])


@pytest.mark.soak
async def test_the_image_serves_as_a_user_of_its_own_and_ends_in_ten_seconds() -> None:
    if os.geteuid() != 0:
        pytest.skip("the builder's chroot isolation needs root")
    with built() as (tool, container):
        config = json.loads(run(tool, "inspect", container))
        declared = config["Docker"]["config"]
        assert declared["User"] == "10001"
        assert declared["StopSignal"] == "SIGTERM"
        assert declared["Healthcheck"]["Test"] == ["CMD", *container_file.health_check()]
        added = bytes_of(tool, config["FromImage"]) - bytes_of(tool, container_file.base())
        assert added < MAX_BYTES
        key = await _serve_once(tool, container, declared)
        assert await _serve_once(tool, container, declared) == key, "the volume keeps its data"


async def _serve_once(tool: str, container: str, declared: dict[str, list[str]]) -> str:
    """Start the image's command in it, ask its health check, and end it; give its admin key."""
    port = free_port()
    inside = [tool, "run", "--isolation", "chroot", "--env", f"POSTDATE_PORT={port}", container]
    serving = await asyncio.create_subprocess_exec(
        *inside, "--", *declared["Entrypoint"], *declared["Cmd"],
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        check = [*inside, "--", *container_file.health_check()]

        async def healthy() -> bool:
            ran = await asyncio.to_thread(subprocess.run, check, capture_output=True, check=False)
            return ran.returncode == 0

        await eventually(healthy, 60, 0.2)
        key = run(*inside, "--", "cat", "/data/admin.key")
        [server] = [
            each
            for each in psutil.Process(serving.pid).children(recursive=True)
            if each.cmdline()[:2] == [f"{INSIDE}python", f"{INSIDE}postdate"]
        ]
        assert server.uids().real == 10001
        server.terminate()
        async with asyncio.timeout(STOP_SECONDS):
            assert await serving.wait() == 0
    finally:
        if serving.returncode is None:
            serving.kill()
    return key
