"""Django's own tests of task backends pass with Postdate behind them, where Django 6 can be had."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from postdate.client.pytest_plugin import PostdateServer

ROOT = Path(__file__).parents[2]
DJANGO = "django>=6,<7"
DOWNLOAD = (
    "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--no-build-isolation",
)  # fmt: skip
SECONDS = 120.0


def interpreter() -> str:
    """Find a Python that Django 6 supports, also one that pyenv keeps out of the way."""
    if sys.version_info >= (3, 12):
        return sys.executable
    known = [shutil.which(f"python3.{minor}") for minor in range(12, 20)]
    known += map(str, Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python"))
    for each in filter(None, known):
        if subprocess.run([each, "-c", ""], check=False, capture_output=True).returncode == 0:
            return each
    pytest.skip("Django 6 needs Python 3.12 or newer")


def python(*words: str, needs: tuple[str, ...], **known: str) -> subprocess.CompletedProcess[str]:
    """Run a program with packages of its own."""
    uv = ROOT / ".tools/bin/uv"
    if not uv.exists():
        pytest.skip("uv is not installed by `make`")
    environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    packages = [word for name in needs for word in ("--with", name)]
    return subprocess.run(
        [uv, "run", "--quiet", "--no-project", "--isolated", "--python", interpreter(),
         "--no-python-downloads", *packages, "python", *words],
        env=environ | known, text=True, capture_output=True, timeout=SECONDS, check=False,
    )  # fmt: skip


@pytest.fixture
def suite(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the folder with the tests of Django, which only its sdist has."""
    cache = getattr(request.config, "cache", None)
    kept = cache.mkdir("django-suite") if cache else tmp_path
    folder = kept / "tests"
    if not folder.exists():
        got = python(*DOWNLOAD, "--dest", str(kept), DJANGO, needs=("pip", "setuptools"))
        if got.returncode:
            pytest.skip(f"Django 6 cannot be had: {got.stderr.strip()[-200:]}")
        [archive] = kept.glob("django-*.tar.gz")
        with tarfile.open(archive) as packed:
            tests = [each for each in packed.getmembers() if "/tests/tasks/" in each.name]
            packed.extractall(kept, tests, filter="data")
        next(kept.glob("django-*/tests")).rename(folder)
    return folder


@pytest.mark.process
def test_django_finds_a_backend_as_it_expects_one(
    suite: Path, postdate_server: PostdateServer
) -> None:
    ran = python(
        str(ROOT / "tests/support/django_suite.py"), str(suite),
        needs=(DJANGO, str(ROOT / "packages/client")),
        POSTDATE_URL=postdate_server.url, POSTDATE_API_KEY=postdate_server.key,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
