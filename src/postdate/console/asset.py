"""Styles and scripts: our own from this package, the others from the build."""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

OWN: Final = "postdate.console"
BROUGHT: Final = "postdate_assets"
FILES: Final = {
    "console.css": (OWN, "static/console.css", "text/css"),
    "console.js": (OWN, "static/console.js", "text/javascript"),
    "chart.js": (OWN, "static/chart.js", "text/javascript"),
    "live.js": (OWN, "static/live.js", "text/javascript"),
    "page.js": (OWN, "static/page.js", "text/javascript"),
    "list.js": (OWN, "static/list.js", "text/javascript"),
    "side.js": (OWN, "static/side.js", "text/javascript"),
    "keys.js": (OWN, "static/keys.js", "text/javascript"),
    "icon.svg": (OWN, "static/icon.svg", "image/svg+xml"),
    "htmx.js": (BROUGHT, "htmx/htmx.min.js", "text/javascript"),
    "uplot.js": (BROUGHT, "uplot/uPlot.iife.min.js", "text/javascript"),
    "uplot.css": (BROUGHT, "uplot/uPlot.min.css", "text/css"),
}


def routes() -> list[Route]:
    """Read every file once."""
    return [Route(f"/assets/{name}", _serve(*where)) for name, where in FILES.items()]


def _serve(package: str, path: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    data = files(package).joinpath(path).read_bytes()
    tag = f'"{sha256(data).hexdigest()[:32]}"'
    headers = {
        "etag": tag,
        # Asked for again with each page, answered by 304: a new version is never missed.
        "cache-control": "no-cache",
        "x-content-type-options": "nosniff",
    }

    async def console_asset(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=media_type, headers=headers)

    return console_asset
