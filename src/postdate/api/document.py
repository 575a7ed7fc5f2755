"""The documents for people and machines: `/docs`, `/docs/errors`, `/schema`, `/openapi.json`."""

import asyncio
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postdate.http.field_description import Json
from postdate.words.error import EXPLANATIONS

_CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
_OWN: Final = "postdate.api"
_BROUGHT: Final = "postdate_assets"
_FILES: Final = {
    "style.css": (_OWN, "static/docs.css", "text/css"),
    "open.js": (_OWN, "static/open.js", "text/javascript"),
    "reference.css": (_BROUGHT, "swagger-ui-dist/swagger-ui.css", "text/css"),
    "reference.js": (_BROUGHT, "swagger-ui-dist/swagger-ui-bundle.js", "text/javascript"),
}
_HEADERS: Final = {"content-security-policy": _CSP, "cache-control": "public, max-age=300"}


def document_routes(describe: Callable[[], Json]) -> list[Route]:
    """Make the routes of the documents. Each is rendered once, when somebody first asks for it.

    `describe` returns the OpenAPI document. A server that starts does not wait for pages that
    most of its life nobody reads.
    """
    document = cache(describe)
    environment = Environment(
        loader=PackageLoader("postdate.api"), autoescape=True, undefined=StrictUndefined
    )

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
        *(_asset(name, *where) for name, where in _FILES.items()),
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
