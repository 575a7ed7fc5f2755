"""Collect the pages of the site, which `make docs` builds from build/pages.

The pages lie where the server shows them too (`postdate.api.guide`), so that no link is dead.
"""

import re
import shutil
from pathlib import Path, PurePosixPath
from posixpath import relpath
from typing import Final

from postdate.api.guide import INDEX, Section, resolve, sections, site_path
from tidy.pages import HOME, dead_links
from tidy.rule import Tree, read_tree

ROOT: Final = Path(__file__).parents[2]
BUILD: Final = ROOT / "build"
_LINK: Final = re.compile(r"\]\(([^)\s:]+)\)")


def place(path: str) -> str:
    """Return where a file of the project lies in the site."""
    return site_path(path) + (".md" if path.endswith(".md") else "")


def moved(path: str, text: str) -> str:
    """Let the links of a page lead to where their targets lie in the site."""
    here = str(PurePosixPath(place(path)).parent)

    def link(found: re.Match[str]) -> str:
        target, anchor = resolve(path, found[1])
        return f"]({relpath(place(target), here)}{anchor})"

    return _LINK.sub(link, text)


def linked(tree: Tree) -> set[str]:
    """List the files that belong to the site: its pages, and what they link to, step by step."""
    found, new = set[str](), {path for path in tree if path.startswith("docs/")}
    while new:
        found |= new
        pages = (path for path in new if path.endswith(".md"))
        targets = {resolve(page, each)[0] for page in pages for each in _LINK.findall(tree[page])}
        new = (targets & tree.keys()) - found
    return found


def nav(index: str) -> str:
    """Write the navigation as TOML: doors, and their parts."""
    doors: list[tuple[Section, list[Section]]] = []
    for section in sections(index):
        if section.depth == 2:
            doors.append((section, []))
        else:
            doors[-1][1].append(section)
    rows = [f"  {{{_text(door.title)} = [{_entries(door, parts)}]}}," for door, parts in doors]
    return (
        "nav = [\n" + f"  {{{_text('Home')} = {_text(place(INDEX))}}},\n" + "\n".join(rows) + "\n]"
    )


def _entries(door: Section, parts: list[Section]) -> str:
    pages = [_page(door)] if door.links else []
    return ", ".join([*pages, *(f"{{{_text(each.title)} = [{_page(each)}]}}" for each in parts)])


def _page(section: Section) -> str:
    return ", ".join(
        f"{{{_text(link.title)} = {_text(place(link.path))}}}" for link in section.links
    )


def _text(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def main() -> None:
    """Write build/pages and the settings of the site."""
    tree = read_tree(ROOT)
    if found := [*dead_links(tree)]:
        raise SystemExit("\n".join(map(str, found)))
    shutil.rmtree(BUILD / "pages", ignore_errors=True)
    for path in linked(tree):
        target = BUILD / "pages" / place(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".md"):
            target.write_text(moved(path, tree[path]))
        else:
            shutil.copy(ROOT / path, target)
    settings = (ROOT / "zensical.toml").read_text()
    (BUILD / "zensical.toml").write_text(
        settings.replace("[project.theme]", nav(tree[HOME]) + "\n\n[project.theme]", 1)
    )


if __name__ == "__main__":
    main()
