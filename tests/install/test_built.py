"""What a release would upload carries what belongs, and runs where nothing else is installed."""

import ast
import sys
import tomllib
from collections.abc import Iterator

import pytest

from conftest import scratch
from support.distribution import LITTER, ROOT, Built, build, environment, interpreter, run, tracked
from support.serve_process import Served

OURS = ("postdate", "postdate_client")
TREES = {"postdate": "", "postdate_client": "packages/client/"}
CLIENT = ROOT / "packages/client/src"
BROUGHT = {"htmx", "swagger-ui-dist", "uplot"}
ASSETS = (
    "/assets/htmx.js", "/assets/console.css", "/docs", "/docs/reference.js",
    "/docs/guide", "/docs/guide/operate/runbooks/lateness",
)  # fmt: skip
CLIENT_DEPENDENCIES = {
    "aiohappyeyeballs", "aiohttp", "aiosignal", "attrs", "frozenlist", "idna", "msgspec",
    "multidict", "postdate-client", "propcache", "typing_extensions", "yarl",
}  # fmt: skip
CLIENT_ONLY = """
import importlib.metadata, sys, urllib.request
from postdate.client import AsyncClient, Client, Worker, verify_webhook
with Client(sys.argv[1], sys.argv[2]) as client:
    print(client.jobs.create(destination={"type": "worker"}, lane="wheel", delay_seconds=60).status)
for asset in sys.argv[3:]:
    print(urllib.request.urlopen(sys.argv[1] + asset).status)
print(*sorted(each.name.lower() for each in importlib.metadata.distributions()))
"""


# For the session: pytest runs async tests apart from the others, and would build twice.
@pytest.fixture(scope="session")
def built() -> Iterator[Built]:
    with scratch() as directory:
        yield build(directory)


def sources(tree: str) -> set[str]:
    return {name for name in tracked() if name.startswith(f"{tree}src/postdate/")}


@pytest.mark.parametrize("name", OURS)
def test_nothing_that_lies_in_the_tree_is_published(built: Built, name: str) -> None:
    published = built.wheel(name) | built.sdist(name)
    assert not published & {*LITTER, *(path.removeprefix("src/") for path in LITTER)}
    assert not [path for path in published if path.endswith(".key")]


def test_the_two_wheels_share_out_the_sources(built: Built) -> None:
    for name, tree in TREES.items():
        found = {path for path in built.wheel(name) if path.startswith("postdate/")}
        assert {f"{tree}src/{path}" for path in found} == sources(tree)


def test_beside_the_sources_a_wheel_has_only_what_the_console_loads(built: Built) -> None:
    others = {path for path in built.wheel("postdate") if not path.startswith("postdate/")}
    info = {path for path in others if path.startswith("postdate-0")}
    assert {path.split("/")[1] for path in others - info} == {"__init__.py", "guide"} | BROUGHT
    assert {path.partition("/")[2] for path in info} == {
        "METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE",
    }  # fmt: skip


def test_an_sdist_has_the_sources_and_what_builds_them(built: Built) -> None:
    for name, tree in TREES.items():
        found = {path for path in built.sdist(name) if path.startswith("src/")}
        assert {f"{tree}{path}" for path in found} == sources(tree)
    others = {path for path in built.sdist("postdate") if not path.startswith("src/")}
    carried = {path for path in others if path.startswith("assets/")}
    assert {path.split("/")[1] for path in carried} == {"__init__.py", "guide"} | BROUGHT
    guide = {path.removeprefix("assets/guide/") for path in carried if "/guide/" in path}
    assert {path for path in tracked() if path.endswith(".md") and path.startswith("docs/")} < guide
    assert guide < {*tracked()}
    assert others - carried == {
        ".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "hatch_build.py",
        "package-lock.json", "package.json", "pyproject.toml",
    }  # fmt: skip
    assert {path for path in built.sdist("postdate_client") if not path.startswith("src/")} == {
        ".gitignore", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml",
    }  # fmt: skip


def test_the_client_has_every_module_it_imports_and_no_other(built: Built) -> None:
    files = {path for path in built.wheel("postdate_client") if path.endswith(".py")}
    wanted = {
        path
        for path in files
        if path.startswith(("postdate/client/", "postdate/django/", "postdate/task/"))
    }
    for path in [*wanted, "postdate/__init__.py"]:
        wanted |= set(_imported(path))
    assert files == wanted


def _imported(path: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((CLIENT / path).read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        name, parts = node.module, node.module.split(".")
        if parts[0] == "postdate":
            yield from (f"{'/'.join(parts[:end])}/__init__.py" for end in range(1, len(parts)))
            file = f"{name.replace('.', '/')}.py"
            package = f"{name.replace('.', '/')}/__init__.py"
            yield file if (CLIENT / file).exists() else package
            modules = (f"{name.replace('.', '/')}/{each.name}.py" for each in node.names)
            yield from (module for module in modules if (CLIENT / module).exists())


def test_both_have_one_version() -> None:
    server, client = (
        tomllib.loads((ROOT / path / "pyproject.toml").read_text())["project"]
        for path in (".", "packages/client")
    )
    assert server["version"] == client["version"]
    assert f"postdate-client=={client['version']}" in server["dependencies"]


async def test_the_wheels_serve_and_call_where_nothing_else_is(built: Built) -> None:
    await _try_out(built, sys.executable)


@pytest.mark.soak
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
async def test_the_wheels_serve_and_call_on_every_python(built: Built, version: str) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"Python {version} is not on this machine")
    await _try_out(built, python)


async def _try_out(built: Built, python: str) -> None:
    with scratch() as directory:
        serving = environment(directory / "server", python, built.wheels)
        calling = environment(directory / "client", python, built.wheels[1:])
        assert "postdate_client" in built.wheels[1].name
        served = Served(directory / "data", command=serving / "postdate")
        await served.start()
        await served.ready()
        said = run(calling / "python", "-c", CLIENT_ONLY, served.url, served.key, *ASSETS)
        assert await served.stop() == 0
    *answers, installed = said.splitlines()
    assert answers == ["PENDING", *("200" for _ in ASSETS)]
    assert set(installed.split()) <= CLIENT_DEPENDENCIES


def test_two_builds_give_the_same_bytes(built: Built) -> None:
    """Whoever builds a release from its commit can compare it with what was uploaded."""
    with scratch() as directory:
        again = build(directory)
        assert {path.name: path.read_bytes() for path in again.wheels} == {
            path.name: path.read_bytes() for path in built.wheels
        }
        assert {path.name: path.read_bytes() for path in again.sdists} == {
            path.name: path.read_bytes() for path in built.sdists
        }
