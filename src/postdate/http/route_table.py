"""Find the endpoint for a path: a tree of path segments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar
from urllib.parse import unquote_to_bytes
from uuid import UUID

from postdate.http.endpoint import BASE, AnyEndpoint
from postdate.words.error import RefusedError, not_found

T = TypeVar("T")

SEGMENT_CHARS: Final = 255
"""The longest name or id in a path; nothing of ours is longer."""


@dataclass(slots=True)
class _Segment(Generic[T]):
    literal: dict[bytes, "_Segment[T]"] = field(default_factory=dict)
    parameter: "_Segment[T] | None" = None
    methods: dict[str, T] = field(default_factory=dict)


class RouteTable(Generic[T]):
    """Maps (path, method) to what was added for it; literal segments win over parameters.

    It reads the raw path, so that an escaped slash stays inside its segment.
    """

    def __init__(self) -> None:
        self._root: _Segment[T] = _Segment()
        self._plain: dict[bytes, dict[str, T]] = {}

    def add(self, endpoint: AnyEndpoint, value: T) -> None:
        """Add one endpoint; two for one method and path are a mistake."""
        node = self._root
        path = (BASE + endpoint.path).encode()
        for segment in path.split(b"/"):
            node = self._child(node, segment)
        if endpoint.method in node.methods:
            raise ValueError(f"{endpoint.method} {endpoint.path} is declared twice")
        node.methods[endpoint.method] = value
        if b"{" not in path:
            self._plain[path] = node.methods

    @staticmethod
    def _child(node: _Segment[T], segment: bytes) -> _Segment[T]:
        if segment.startswith(b"{"):
            node.parameter = node.parameter or _Segment()
            return node.parameter
        return node.literal.setdefault(segment, _Segment())

    def find(self, raw_path: bytes) -> tuple[Mapping[str, T], list[bytes]] | None:
        """Return the methods of a path and its raw parameters in order."""
        methods = self._plain.get(raw_path)
        if methods is not None:
            return methods, []
        parameters: list[bytes] = []
        node = self._walk(self._root, raw_path.split(b"/"), 0, parameters)
        return None if node is None else (node.methods, parameters)

    def _walk(
        self, node: _Segment[T], segments: list[bytes], at: int, parameters: list[bytes]
    ) -> _Segment[T] | None:
        if at == len(segments):
            return node if node.methods else None
        segment = segments[at]
        child = node.literal.get(segment)
        if child is not None:
            found = self._walk(child, segments, at + 1, parameters)
            if found is not None:
                return found
        if node.parameter is None or not segment:
            return None
        parameters.append(segment)
        found = self._walk(node.parameter, segments, at + 1, parameters)
        if found is None:
            parameters.pop()
        return found


def parameters_of(path: str) -> list[tuple[str, bool]]:
    """Read the parameters of a declared path: name, and whether it is a UUID."""
    found = []
    for segment in path.split("/"):
        if segment.startswith("{"):
            name, _, kind = segment[1:-1].partition(":")
            if not segment.endswith("}") or not name.isidentifier() or kind not in {"", "uuid"}:
                raise ValueError(f"{segment} in {path} is neither {{name}} nor {{name:uuid}}")
            found.append((name, kind == "uuid"))
    return found


def convert(declared: Sequence[tuple[str, bool]], raw: Sequence[bytes]) -> dict[str, UUID | str]:
    """Turn raw segments into values; a malformed id is refused exactly as a missing one."""
    values: dict[str, UUID | str] = {}
    for (name, is_uuid), segment in zip(declared, raw, strict=True):
        try:
            text = unquote_to_bytes(segment).decode()
            if len(text) > SEGMENT_CHARS or not text.isprintable():
                raise _missing(name, segment)
            values[name] = UUID(text) if is_uuid else text
        except ValueError:
            raise _missing(name, segment) from None
    return values


def _missing(name: str, segment: bytes) -> RefusedError:
    noun = name.removesuffix("_id").replace("_", " ")
    return not_found(noun, segment[:SEGMENT_CHARS].decode("ascii", "replace"))
