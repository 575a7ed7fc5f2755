"""Hold each answer that a test gets against the OpenAPI document: it lists every code."""

from functools import cache
from typing import Any

from postdate.api.endpoints import ENDPOINTS
from postdate.http.endpoint import AnyEndpoint
from postdate.http.openapi import codes_of
from postdate.http.route_table import RouteTable


@cache
def _table() -> RouteTable[tuple[AnyEndpoint, frozenset[str]]]:
    table: RouteTable[tuple[AnyEndpoint, frozenset[str]]] = RouteTable()
    for endpoint in ENDPOINTS:
        table.add(endpoint, (endpoint, frozenset(map(str, codes_of(endpoint)))))
    return table


def check_answer(method: str, path: str, status: int, body: Any) -> None:
    """Fail where an operation answers with a status or a code that the document does not list."""
    found = _table().find(f"/api/v1{path.partition('?')[0]}".encode())
    if found is None or method not in found[0]:
        return
    endpoint, codes = found[0][method]
    if isinstance(body, dict) and status >= 400 and "code" in body:
        assert body["code"] in codes, f"{method} {endpoint.template} lists no {body['code']}"
    elif status < 300:
        assert status in {200, 204, endpoint.status}, f"{endpoint.template} lists no {status}"
