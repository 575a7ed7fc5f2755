"""What a seeded bug is."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("src/postdate", "packages/client/src/postdate")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug: in a file of the package, `old` (which stands there once) becomes `new`.

    `tests` are what is run to catch it, below `tests`.
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def layer(self) -> str:
        """Name the layer of tests that catches it."""
        return self.tests[0].partition("/")[0]

    def file(self, root: Path) -> Path:
        """Return its file below a copy of the project."""
        places = [root / source / self.path for source in SOURCES]
        [found] = [place for place in places if place.exists()]
        return found

    def changed(self, text: str) -> str:
        """Give the text of its file with the bug in it."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.name}: its text stands {count} times in {self.path}")
        return text.replace(self.old, self.new)


def mutant(name: str, path: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, path, old, new, tests)
