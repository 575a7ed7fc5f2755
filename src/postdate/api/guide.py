"""The documentation at `/docs/guide`: the Markdown pages of the project, rendered by the server.

A page's address is its path below `docs/` without the suffix; pages and files from elsewhere in
the project are below `root/`. So links between pages work here, in the repository and in the site.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import pairwise
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Final, NamedTuple

from jinja2 import Environment
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

ADDRESS: Final = "/docs/guide"
INDEX: Final = "docs/index.md"
ELSEWHERE: Final = "root/"
SHIPPED: Final = ("docs", "examples", "deploy")
"""The folders whose files pages may link to."""

ROOT_FILES: Final = (
    *("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"),
    "LICENSE",
)
"""The files of the project's root that pages may link to."""

MAX_HITS: Final = 50
"""Maximum pages that a search lists."""

MEDIA: Final[Mapping[str, str]] = {".png": "image/png", ".svg": "image/svg+xml"}

_COMMENT: Final = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_NOT_IN_ANCHOR: Final = re.compile(r"[^\w\- ]")
_ENTRY: Final = re.compile(r"^- \[(?P<title>[^\]]+)\]\((?P<target>[^)]+)\): (?P<purpose>.+)$")
_TARGET: Final = re.compile(r"\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^(?P<marks>##+) (?P<title>.+)$")


class Link(NamedTuple):
    """A page in the navigation: its title, where it is, and what a reader finds there."""

    title: str
    path: str
    purpose: str


class Section(NamedTuple):
    """A heading of the index with the pages below it; `depth` is 2 for a door, 3 for a part."""

    title: str
    depth: int
    links: tuple[Link, ...]


class Hit(NamedTuple):
    """A page that a search found, and the first line that has the words."""

    title: str
    address: str
    line: str


def site_path(path: str) -> str:
    """Return what the guide calls a file, from its path in the project."""
    inner = path.removeprefix("docs/") if path.startswith("docs/") else f"{ELSEWHERE}{path}"
    return inner.removesuffix(".md")


def project_path(name: str) -> str:
    """Return the path in the project of what the guide calls `name`: a page's has no suffix."""
    if name.startswith(ELSEWHERE):
        return name.removeprefix(ELSEWHERE)
    return f"docs/{name or 'index'}"


def resolve(page: str, target: str) -> tuple[str, str]:
    """Return the project's path and the anchor that a link on a page leads to."""
    path, mark, anchor = target.partition("#")
    where = normpath(str(PurePosixPath(page).parent / path)) if path else page
    return where, mark + anchor


def sections(index: str) -> Iterator[Section]:
    """Read the navigation from the index: headings, and lists of `- [title](page): purpose`."""
    title, depth, links = "", 0, list[Link]()
    for line in [*index.splitlines(), "## "]:
        if heading := _HEADING.match(f"{line} " if line == "## " else line):
            if title:
                yield Section(title, depth, tuple(links))
            title, depth, links = heading["title"].strip(), len(heading["marks"]), []
        elif entry := _ENTRY.match(line):
            links.append(Link(entry["title"], resolve(INDEX, entry["target"])[0], entry["purpose"]))


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return _NOT_IN_ANCHOR.sub("", heading.lower().strip()).replace(" ", "-")


def source() -> Traversable:
    """Find the pages: in the source tree, or in the wheel."""
    tree = Path(__file__).parents[3]
    return tree if (tree / INDEX).is_file() else files("postdate_assets") / "guide"


class Guide:
    """Renders pages, each once, and searches them. All methods block: call them in a thread."""

    def __init__(self, environment: Environment, root: Traversable) -> None:
        self._environment = environment
        self._root = root
        self._markdown = _markdown()
        self._texts = cache(self._read_texts)
        self._linked = cache(self._read_links)
        self._rendered = cache(self._render_page)

    def file(self, name: str) -> bytes | None:
        """Return a file that some page links to, or None: nothing else of a folder is shown."""
        where = self._linked().get(project_path(name))
        return where.read_bytes() if where else None

    def page(self, name: str) -> bytes | None:
        """Return a page as HTML, or None if the guide has no such page."""
        path = f"{project_path(name)}.md"
        return self._rendered(path) if path in self._texts() else None

    def _render_page(self, path: str) -> bytes:
        text = self._texts()[path]
        tokens = self._markdown.parse(_COMMENT.sub("", text))
        _set_anchors(tokens)
        _set_focus(tokens)
        for token in _inline(tokens):
            _set_link(path, token)
        body = self._markdown.renderer.render(tokens, self._markdown.options, {})
        return self._render(title_of(text), Markup(body), path)  # noqa: S704 - HTML is off

    def search(self, words: str) -> bytes:
        """Return the pages that contain every word, as HTML."""
        hits = list(self._hits(words.lower().split()))[:MAX_HITS]
        return self._render(f"Search: {words}", None, "", words=words, hits=hits)

    def _hits(self, words: list[str]) -> Iterator[Hit]:
        for path, text in self._texts().items():
            low = text.lower()
            if words and all(word in low for word in words):
                line = next(line for line in text.splitlines() if words[0] in line.lower())
                yield Hit(title_of(text), f"{ADDRESS}/{site_path(path)}", line.strip("#|- ")[:200])

    def _render(self, title: str, body: Markup | None, path: str, **more: object) -> bytes:
        shown = {"words": "", "hits": (), **more}
        return (
            self._environment.get_template("guide.html")
            .render(title=title, body=body, path=path, sections=self._sections(), **shown)
            .encode()
        )

    def _sections(self) -> list[tuple[Section, list[tuple[Link, str]]]]:
        found = sections(self._texts().get(INDEX, ""))
        return [
            (each, [(link, f"{ADDRESS}/{site_path(link.path)}") for link in each.links])
            for each in found
        ]

    def _read_texts(self) -> Mapping[str, str]:
        """Read every page, in the order of their paths."""
        found = {path: where.read_text() for path, where in _walk(self._root) if _is_page(path)}
        return dict(sorted(found.items()))

    def _read_links(self) -> Mapping[str, Traversable]:
        """List the files that are no pages and that pages link to."""
        targets = {
            resolve(page, target)[0]
            for page, text in self._texts().items()
            for target in _TARGET.findall(text)
        }
        return {path: where for path, where in _walk(self._root) if path in targets}


def inline_html(sentence: str) -> Markup:
    """Render a sentence of Markdown, such as one with `code` in it."""
    return Markup(_markdown().renderInline(sentence))  # noqa: S704 - HTML is off


def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def title_of(text: str) -> str:
    """Return the title of a page: its first line."""
    return text.partition("\n")[0].removeprefix("# ")


def _is_page(path: str) -> bool:
    return path.endswith(".md")


def _walk(root: Traversable) -> Iterator[tuple[str, Traversable]]:
    """List the shipped files with their paths in the project."""
    for each in root.iterdir():
        if each.name in SHIPPED:
            yield from _files_below(each, each.name)
        elif each.name in ROOT_FILES:
            yield each.name, each


def _files_below(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        inner = f"{path}/{each.name}"
        if each.is_dir():
            yield from _files_below(each, inner)
        else:
            yield inner, each


def _inline(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield from token.children or ()


def _set_anchors(tokens: list[Token]) -> None:
    """Give every heading an id, so that links can lead to it."""
    for opening, inside in pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(each.content for each in inside.children or ())
            opening.attrSet("id", anchor_of(text))


def _set_focus(tokens: list[Token]) -> None:
    """Let the keyboard reach what may be wider than the page: it scrolls there."""
    for token in tokens:
        if token.type in {"fence", "code_block", "table_open"}:
            token.attrSet("tabindex", "0")


def _set_link(page: str, token: Token) -> None:
    """Let a relative link or picture lead to its place in the guide."""
    name = {"link_open": "href", "image": "src"}.get(token.type)
    target = str(token.attrGet(name) or "") if name else ""
    if name and target and ":" not in target and not target.startswith(("/", "#")):
        path, anchor = resolve(page, target)
        token.attrSet(name, f"{ADDRESS}/{site_path(path)}{anchor}")
