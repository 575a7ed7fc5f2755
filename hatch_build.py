"""Bring the documentation and the pages' JavaScript into wheel and sdist, without Node."""

import base64
import hashlib
import io
import json
import os
import re
import shutil
import ssl
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

import truststore
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE: Final = "postdate_assets"
"""A top-level package of its own: an editable install maps our own one to the source tree."""

CARRIED: Final = "assets"
"""Where an sdist carries the files."""

FILES: Final = {
    "htmx.org": ("dist/htmx.min.js", "LICENSE"),
    "swagger-ui-dist": ("swagger-ui-bundle.js", "swagger-ui.css", "LICENSE"),
    "uplot": ("dist/uPlot.iife.min.js", "dist/uPlot.min.css", "LICENSE"),
}
GUIDE: Final = "guide"
ROOT_PAGES: Final = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
)
LINK: Final = re.compile(r"\]\(([^)\s:#]+)")

SECONDS: Final = 30

# In parts, since the names of registries stay out of the project: the machine chooses. This is the
# public default of npm itself, for a machine that has chosen none.
DEFAULT: Final = "https://" + ".".join(("registry", "npmjs", "org"))  # noqa: FLY002


class AssetHook(BuildHookInterface[Any]):
    """Fetch, check and include the files of `package-lock.json`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the files where the wheel, or the editable install, takes them from."""
        self._place = Path(tempfile.mkdtemp(prefix="postdate-assets"))
        root = Path(self.root).resolve()
        if (root / CARRIED).is_dir():
            shutil.copytree(root / CARRIED, self._place, dirs_exist_ok=True)
        else:
            self._fetch(root)
            if version != "editable":  # an editable install shows the pages of its source tree
                carry_guide(root, self._place / GUIDE)
        if self.target_name == "sdist":
            build_data["force_include"][str(self._place)] = CARRIED
            return
        included = "force_include_editable" if version == "editable" else "force_include"
        build_data[included][str(self._place)] = PACKAGE

    def _fetch(self, root: Path) -> None:
        """Fetch each package that the lock file names, and keep the files that pages load."""
        lock = json.loads((root / "package-lock.json").read_text())
        (self._place / "__init__.py").write_text('"""What the pages load."""\n')
        for name, wanted in FILES.items():
            locked = lock["packages"][f"node_modules/{name}"]
            archive = fetch(registry(root), name, locked["version"])
            check(archive, locked["integrity"], name)
            unpack(archive, wanted, self._place / name.partition(".")[0])

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing behind."""
        del version, build_data, artifact_path
        shutil.rmtree(self._place)


def carry_guide(root: Path, place: Path) -> None:
    """Copy the pages of the documentation, and the files that they link to: nothing else."""
    pages = [*(root / name for name in ROOT_PAGES), *root.glob("docs/**/*.md")]
    linked = {
        (page.parent / link).resolve() for page in pages for link in LINK.findall(page.read_text())
    }
    for file in {*pages, *(each for each in linked if each.is_file() and root in each.parents)}:
        target = place / file.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)


def registry(root: Path) -> str:
    """Find the registry as npm does: the environment, the project, the user, the default."""
    if given := os.environ.get("npm_config_registry"):  # noqa: SIM112 - npm spells it so
        return given.rstrip("/")
    for file in (root / ".npmrc", Path.home() / ".npmrc"):
        for line in file.read_text().splitlines() if file.exists() else ():
            name, _, value = line.partition("=")
            if name.strip() == "registry":
                return value.strip().rstrip("/")
    return DEFAULT


def fetch(base: str, name: str, version: str) -> bytes:
    """Download one package."""
    url = f"{base}/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
    if not url.startswith("https://") and not url.startswith("http://"):
        raise RuntimeError(f"the npm registry is not an http address: {base}")
    context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        with urllib.request.urlopen(url, timeout=SECONDS, context=context) as answer:  # noqa: S310
            data: bytes = answer.read()
    except (urllib.error.URLError, TimeoutError) as error:
        raise RuntimeError(
            f"the pages need {name} {version}, and {url} cannot be read: {error}. "
            "Name a registry that can be reached in npm_config_registry or in .npmrc."
        ) from None
    return data


def check(archive: bytes, integrity: str, name: str) -> None:
    """Compare a package with its lock."""
    digest = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if integrity != f"sha512-{digest}":
        raise RuntimeError(f"{name} is not what package-lock.json says: {integrity} is expected")


def unpack(archive: bytes, wanted: tuple[str, ...], place: Path) -> None:
    """Take the few files that are needed."""
    place.mkdir()
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        for path in wanted:
            member = packed.extractfile(f"package/{path}")
            if member is None:
                raise RuntimeError(f"the package has no {path}")
            (place / Path(path).name).write_bytes(member.read())
