"""The documents for people and machines: `/docs`, `/docs/guide`, `/docs/errors`, `/schema`."""

import asyncio
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postdate.api.guide import ADDRESS, MEDIA, Guide, inline_html, source
from postdate.http.field_description import Json
from postdate.words.error import EXPLANATIONS

_CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_OWN: Final = "postdate.api"
_BROUGHT: Final = "postdate_assets"
_FILES: Final = {
    "style.css": (_OWN, "static/docs.css", "text/css"),
    "console.css": ("postdate.console", "static/console.css", "text/css"),
    "open.js": (_OWN, "static/open.js", "text/javascript"),
    "reference.css": (_BROUGHT, "swagger-ui-dist/swagger-ui.css", "text/css"),
    "reference.js": (_BROUGHT, "swagger-ui-dist/swagger-ui-bundle.js", "text/javascript"),
}
MAX_WORDS: Final = 100
"""Maximum characters of a search in the documentation."""

_HEADERS: Final = {"content-security-policy": _CSP, "cache-control": "public, max-age=300"}


def document_routes(describe: Callable[[], Json]) -> list[Route]:
    """Make the routes of the documents. Each is rendered once, on the first request for it.

    `describe` returns the OpenAPI document. A starting server does not wait for pages that
    are read rarely.
    """
    document = cache(describe)
    environment = Environment(
        loader=PackageLoader("postdate.api"), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["marked"] = inline_html

    def schema() -> bytes:
        return msgspec.json.encode(document())

    def docs() -> bytes:
        version = document()["info"]["version"]
        return environment.get_template("docs.html").render(version=version).encode()

    def errors() -> bytes:
        return environment.get_template("errors.html").render(explanations=EXPLANATIONS).encode()

    return [
        _page("/schema", schema, "application/json"),
        _page("/openapi.json", schema, "application/json"),
        _page("/docs", docs, "text/html"),
        _page("/docs/errors", errors, "text/html"),
        *_guide_routes(Guide(environment, source())),
        *(_asset(name, *where) for name, where in _FILES.items()),
    ]


def _guide_routes(guide: Guide) -> list[Route]:
    """Make the routes of the documentation: a page, a file beside it, and the search."""

    async def page(request: Request) -> Response:
        name = request.path_params.get("name", "")
        body = await asyncio.to_thread(guide.page, name)
        if body is not None:
            return Response(body, media_type="text/html", headers=_HEADERS)
        body = await asyncio.to_thread(guide.file, name)
        if body is not None:
            media_type = MEDIA.get(PurePosixPath(name).suffix, "text/plain")
            return Response(body, media_type=media_type, headers=_HEADERS)
        body = await asyncio.to_thread(guide.search, name[:MAX_WORDS])
        return Response(body, 404, media_type="text/html", headers=_HEADERS)

    async def search(request: Request) -> Response:
        words = request.query_params.get("q", "")[:MAX_WORDS]
        body = await asyncio.to_thread(guide.search, words)
        return Response(body, media_type="text/html", headers=_HEADERS)

    return [
        Route(ADDRESS, page),
        Route(f"{ADDRESS}/search", search),
        Route(f"{ADDRESS}/{{name:path}}", page),
    ]


def _asset(name: str, package: str, path: str, media_type: str) -> Route:
    return _page(f"/docs/{name}", files(package).joinpath(path).read_bytes, media_type)


def _page(path: str, render: Callable[[], bytes], media_type: str) -> Route:
    """Make a route that renders in a thread, so that no other request waits for it."""
    rendered = cache(render)

    async def page(_: Request) -> Response:
        body = await asyncio.to_thread(rendered)
        return Response(body, media_type=media_type, headers=_HEADERS)

    return Route(path, page)
