"""Read the answer of a receiver from the bytes that arrive; nothing here waits or sends."""

import re
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

ANSWER_BYTES: Final = 64 * 1024 + 1
"""Most that is read of an answer's body; then the connection is closed."""

HEAD_BYTES: Final = 64 * 1024
"""Most that may come before the end of an answer's head."""

FIELD_BYTES: Final = 8190
FIELDS: Final = 128
INTERIM_ANSWERS: Final = 100

SWITCHING: Final = 101
WITHOUT_BODY: Final = frozenset({204, 304})

_BLANK_LINE: Final = re.compile(rb"\r?\n\r?\n")
_LENGTH: Final = re.compile(rb"(?im)^content-length[ \t]*:([0-9, \t]*)\r?\n")


class UnreadableError(Exception):
    """An answer breaks a rule or a limit."""


class AnswerParser:
    """Reads the answers of one connection, one after the other."""

    __slots__ = (
        "_body",
        "_ended",
        "_fields",
        "_held",
        "_interim",
        "_parser",
        "_refused",
        "complete",
        "failure",
        "headers",
        "reusable",
        "status",
    )

    def __init__(self) -> None:
        self.begin()
        self._restart()

    def begin(self) -> None:
        """Forget the last answer: the next one belongs to another request."""
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.complete = False
        self.reusable = False
        self.failure: str | None = None
        self._ended = False
        self._body = bytearray()
        self._fields = 0
        self._interim = 0
        self._held = bytearray()
        self._refused: str | None = None

    @property
    def body(self) -> bytes:
        """Return what has come of the body, up to the limit."""
        return bytes(self._body[:ANSWER_BYTES])

    def feed(self, data: bytes) -> bool:
        """Take what has arrived; return whether the answer is complete or cannot be read."""
        if self._refused is None:
            self._parse(data)
        if not self.status:
            self._hold(data)
        return self.complete or self.failure is not None

    def end(self) -> bool:
        """Take note that nothing more will come; return whether the answer is complete."""
        if self.status and not self.complete and self.failure is None and self._lasts_to_the_end():
            self.complete = True
        return self.complete

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self.complete = True
        except HttpParserError as error:
            self._refuse(str(error.__context__ or error))

    def _refuse(self, reason: str) -> None:
        """Decide what bytes that cannot be read mean for the answer, by where they stand."""
        self.reusable = False
        if not self.status:
            self._refused = reason
        elif not self.complete:
            self.failure = reason
        elif self._ended and self.status not in WITHOUT_BODY:
            # More came than the answer had announced: nothing says which of both is right.
            self.failure = f"more came than the answer announced: {reason}"

    def _hold(self, data: bytes) -> None:
        """Keep an unfinished head: if the parser refuses it, a repeated length may be why."""
        self._held += data
        if len(self._held) > HEAD_BYTES:
            self.failure = f"the head of the answer is longer than {HEAD_BYTES} bytes"
        elif self._refused is not None:
            whole = _BLANK_LINE.search(self._held)
            if whole is not None or not self._held.startswith(b"HTTP/"):
                self._read_again(self._refused, 0 if whole is None else whole.end())

    def _read_again(self, reason: str, head_bytes: int) -> None:
        """Parse again with equal lengths written once; there is no second reading after that."""
        head, rest = bytes(self._held[:head_bytes]), bytes(self._held[head_bytes:])
        merged = with_one_length(head)
        if merged is None:
            self.failure = reason
            return
        self.begin()
        self._restart()
        self._parse(merged + rest)
        self.failure = self.failure or self._refused

    def _restart(self) -> None:
        self._parser = HttpResponseParser(self)
        # Old servers end lines with a bare line feed or fold headers; each can be read in one way.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )

    def _lasts_to_the_end(self) -> bool:
        """Tell whether only the end of the connection ends this answer."""
        coding = self.headers.get(b"transfer-encoding")
        if coding is not None:
            return coding.rpartition(b",")[2].strip().lower() != b"chunked"
        return b"content-length" not in self.headers

    # Callbacks of httptools.

    def on_message_begin(self) -> None:
        """Notice bytes that belong to no request."""
        if self.complete:
            self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Remember a header; of a repeated header the first."""
        self._fields += 1
        if self._fields > FIELDS:
            raise UnreadableError(f"the answer has more than {FIELDS} headers")
        if len(name) + len(value) > FIELD_BYTES:
            raise UnreadableError(f"the answer has a header of more than {FIELD_BYTES} bytes")
        if b"\0" in value or b"\r" in value:
            raise UnreadableError("the answer has a header with characters that no header may have")
        if self.status:
            return  # a trailer
        name = name.lower()
        if name not in self.headers:
            self.headers[name] = value
        elif name == b"transfer-encoding":
            self.headers[name] += b"," + value

    def on_headers_complete(self) -> None:
        """Tell a final answer from an interim one."""
        if self.complete:
            return
        status = self._parser.get_status_code()
        if status >= 200 or status == SWITCHING:  # noqa: PLR2004 - interim below
            self.status = status
            return
        self._interim += 1
        self._fields = 0
        self.headers.clear()
        if status < 100 or self._interim > INTERIM_ANSWERS:  # noqa: PLR2004 - no status at all
            raise UnreadableError(f"interim answer {self._interim} has status {status}")

    def on_body(self, data: bytes) -> None:
        """Collect the body up to its limit."""
        if not self.complete:
            self._body += data
            if len(self._body) >= ANSWER_BYTES:
                self.complete = True

    def on_message_complete(self) -> None:
        """Decide whether another request may follow on this connection."""
        if not self.status or self.complete:
            return
        self.complete = self._ended = True
        # Some servers send a body that these answers cannot have; it would come too late to tell.
        strays = self.status in WITHOUT_BODY and self.headers.get(b"content-length", b"0") != b"0"
        self.reusable = self._parser.should_keep_alive() and not strays


def with_one_length(head: bytes) -> bytes | None:
    """Write a Content-Length that is given several times once; return None where they differ."""
    given = [each.strip() for found in _LENGTH.findall(head) for each in found.split(b",")]
    if len(given) < 2 or len(set(given)) > 1 or not given[0].isdigit():  # noqa: PLR2004 - a pair
        return None
    first, line, others = head.partition(b"\n")
    length: bytes = b"Content-Length: " + given[0] + b"\r\n"
    return first + line + length + _LENGTH.sub(b"", others)
