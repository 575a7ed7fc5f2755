"""Build the distributions from a copy of the tree, and install them where nothing else is."""

import json
import os
import shutil
import subprocess
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LITTER = (
    "data/admin.key",
    "mydata/18/PG_VERSION",
    ".postdate/admin.key",
    ".postdate/client.json",
    "notes.md",
    "src/admin.key",
    "src/postdate/admin.key",
    "src/postdate/data/admin.key",
    "packages/client/src/postdate/client/admin.key",
    "packages/client/src/postdate/client/data/secret.json",
    "packages/client/admin.key",
)
"""What people leave in a tree: none of it may be published."""

NONE = "http://127.0.0.1:9"
"""A registry that does not answer."""


def uv() -> Path:
    """Find uv where `make setup` has put it."""
    ours = ROOT / ".tools" / "bin" / "uv"
    found = ours if ours.exists() else shutil.which("uv")
    if found is None:
        raise FileNotFoundError("uv is not there: `make setup` brings it")
    return Path(found)


def run(*command: str | Path, **more: str) -> str:
    """Run to its end, and give what it printed; show what it complained about."""
    env = os.environ | more
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def tracked() -> list[str]:
    """List the files of the project; new ones count before they are committed."""
    names = run("git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard")
    return [name for name in names.splitlines() if (ROOT / name).is_file()]


@dataclass(frozen=True)
class Built:
    """What a release would upload."""

    directory: Path

    @property
    def wheels(self) -> list[Path]:
        """Give both wheels."""
        return sorted(self.directory.glob("*.whl"))

    @property
    def sdists(self) -> list[Path]:
        """Give both sdists."""
        return sorted(self.directory.glob("*.tar.gz"))

    def wheel(self, name: str) -> set[str]:
        """Give the names in a wheel."""
        (path,) = self.directory.glob(f"{name}-[0-9]*.whl")
        with zipfile.ZipFile(path) as packed:
            return set(packed.namelist())

    def sdist(self, name: str) -> set[str]:
        """Give the names in an sdist, from its root."""
        (path,) = self.directory.glob(f"{name}-[0-9]*.tar.gz")
        with tarfile.open(path) as packed:
            return {name.partition("/")[2] for name in packed.getnames()}


def build(directory: Path) -> Built:
    """Build both distributions as a release does: the sdist, and the wheel from it."""
    tree = directory / "tree"
    for name in [*tracked(), *LITTER]:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        if name in LITTER:
            (tree / name).write_text("secret")
        else:
            shutil.copy(ROOT / name, tree / name)
    dist = directory / "dist"
    for project in (tree, tree / "packages" / "client"):
        run(uv(), "build", "--quiet", "--sdist", "--out-dir", dist, project)
    for sdist in dist.glob("*.tar.gz"):
        # An sdist carries what the pages load: building from it asks no npm registry.
        run(uv(), "build", "--quiet", "--wheel", "--out-dir", dist, sdist, npm_config_registry=NONE)
    return Built(dist)


def interpreter(version: str) -> str | None:
    """Find a Python of this version on this machine: on the path, or one of pyenv's."""
    listed = run(uv(), "python", "list", "--only-installed", "--output-format", "json", version)
    found = [str(each["path"]) for each in json.loads(listed)]
    found += map(str, (Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python"))
    return found[0] if found else None


def environment(directory: Path, python: str, wheels: list[Path]) -> Path:
    """Make an environment with these wheels and what they ask for; give its `bin`."""
    run(uv(), "venv", "--quiet", "--python", python, directory)
    run(uv(), "pip", "install", "--quiet", "--python", directory / "bin" / "python", *wheels)
    return directory / "bin"
