"""Take the client out of the one source tree, from a checkout or from an unpacked sdist."""

from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PARTS: Final = (
    "__init__.py",
    "py.typed",
    "client",
    "model/__init__.py",
    "model/destination/__init__.py",
    "model/destination/signature.py",
    "model/error.py",
    "model/open_enum.py",
    "model/problem.py",
)
"""What a client needs of `postdate`; the other distribution leaves exactly this out."""


class ClientHook(BuildHookInterface[Any]):
    """Include the parts where the wheel or the sdist wants them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name each file; an editable install points at the source tree instead."""
        if version == "editable":
            return
        tree = source_tree(Path(self.root))
        inside = "src/postdate" if self.target_name == "sdist" else "postdate"
        for path in python_files(tree):
            build_data["force_include"][str(path)] = f"{inside}/{path.relative_to(tree)}"


def source_tree(root: Path) -> Path:
    """Find the sources: an sdist has them below it, a checkout beside it."""
    unpacked = root / "src" / "postdate"
    return unpacked if unpacked.is_dir() else root.parents[1] / "src" / "postdate"


def python_files(tree: Path) -> list[Path]:
    """List the files of the parts; whatever else lies there stays there."""
    found = []
    for part in PARTS:
        path = tree / part
        if not path.exists():
            raise RuntimeError(f"the client needs {path}, which is not there")
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found
