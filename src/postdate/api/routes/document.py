"""The documents for people and machines: `/docs`, `/docs/errors`, `/schema`."""

from importlib.resources import files
from typing import Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from postdate.api.http.error_reference import error_entries
from postdate.api.http.openapi import Json

_CSP: Final = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'"
_HEADERS: Final = {"content-security-policy": _CSP, "cache-control": "public, max-age=300"}


def document_routes(document: Json) -> list[Route]:
    """Render the pages once: they change only with the code."""
    environment = Environment(
        loader=PackageLoader("postdate.api"), autoescape=True, undefined=StrictUndefined
    )
    schema = msgspec.json.encode(document)
    docs = environment.get_template("docs.html").render(document=document)
    errors = environment.get_template("errors.html").render(entries=error_entries())
    style = files("postdate.api").joinpath("templates/docs.css").read_text()

    async def schema_json(_: Request) -> Response:
        return Response(schema, media_type="application/json", headers=_HEADERS)

    async def docs_page(_: Request) -> Response:
        return HTMLResponse(docs, headers=_HEADERS)

    async def errors_page(_: Request) -> Response:
        return HTMLResponse(errors, headers=_HEADERS)

    async def docs_style(_: Request) -> Response:
        return Response(style, media_type="text/css", headers=_HEADERS)

    return [
        Route("/schema", schema_json),
        Route("/docs", docs_page),
        Route("/docs/errors", errors_page),
        Route("/docs/style.css", docs_style),
    ]
