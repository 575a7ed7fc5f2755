"""What receivers answer with, well and badly, and what each answer means for the delivery."""

from support.hostile_receiver import Act, Peer, answering

OK = b"HTTP/1.1 200 OK\r\n"
NO_BODY = b"Content-Length: 0\r\n\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
HUGE = 70_000


def ending(data: bytes) -> Act:
    """Answer with these bytes and end the connection politely."""

    async def act(peer: Peer) -> None:
        await peer.write(data)
        peer.writer.close()
        await peer.hang()

    return act


def half_closing(data: bytes) -> Act:
    """Answer and stop sending, but go on reading."""

    async def act(peer: Peer) -> None:
        await peer.write(data)
        peer.writer.write_eof()
        await peer.hang()

    return act


def in_pieces(*pieces: bytes) -> Act:
    """Answer in several packets."""

    async def act(peer: Peer) -> None:
        await peer.drip(pieces[:-1], 0.01)
        await peer.write(pieces[-1])

    return act


def resetting(data: bytes) -> Act:
    """Answer and die."""

    async def act(peer: Peer) -> None:
        await peer.drip([data], 0.05)
        peer.reset()

    return act


DONE: dict[str, Act] = {
    "no body": answering(OK + NO_BODY),
    "chunks": answering(CHUNKED + b"2\r\nhi\r\n0\r\n\r\n"),
    "chunks with extensions and trailers": answering(CHUNKED + b"2;a=b\r\nhi\r\n0\r\nX: y\r\n\r\n"),
    "chunks byte by byte": in_pieces(*(bytes([b]) for b in CHUNKED + b"2\r\nhi\r\n0\r\n\r\n")),
    "a head byte by byte": in_pieces(*(bytes([b]) for b in OK + NO_BODY)),
    "until the end": ending(OK + b"\r\nhello"),
    "until the end, half closed": half_closing(OK + b"\r\nhello"),
    "an unknown coding until the end": ending(OK + b"Transfer-Encoding: gzip\r\n\r\nhello"),
    "half closed after its length": half_closing(OK + b"Content-Length: 2\r\n\r\nhi"),
    "HTTP/1.0": ending(b"HTTP/1.0 200 OK\r\n\r\nhello"),
    "HTTP/1.0 with a length": answering(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
    "HTTP/1.0 that stays": answering(
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi"
    ),
    "a last one": answering(OK + b"Connection: close\r\n" + NO_BODY),
    "an interim answer": answering(b"HTTP/1.1 100 Continue\r\n\r\n" + OK + NO_BODY),
    "many interim answers": answering(
        b"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n" * 50 + OK + NO_BODY
    ),
    "no reason": answering(b"HTTP/1.1 200\r\n" + NO_BODY),
    "bare line feeds": answering(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"),
    "folded headers": answering(OK + b"X: a\r\n b\r\n" + NO_BODY),
    "empty lines in front": answering(b"\r\n\r\n" + OK + NO_BODY),
    "a body after 204": answering(b"HTTP/1.1 204 None\r\n\r\nhello"),
    "204 with a length": answering(b"HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\n"),
    "204 with a length and a body": answering(
        b"HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\nhello"
    ),
    "two equal lengths": answering(
        OK + b"Content-Length: 2\r\nX: y\r\ncontent-length: 2\r\n\r\nhi"
    ),
    "two equal lengths in one line": answering(OK + b"Content-Length: 2, 2\r\n\r\nhi"),
    "two equal lengths in pieces": in_pieces(
        OK + b"Content-Length: 2\r\nContent-Length: 2\r\n", b"X: y\r\n\r\n", b"h", b"i"
    ),
    "reset instead of an end": resetting(OK + b"\r\nhello"),
    "two answers": answering((OK + NO_BODY) * 2),
    "the beginning of a second answer": answering(
        OK + NO_BODY + b"HTTP/1.1 500 Late\r\nContent-Le"
    ),
    "a long body": answering(OK + b"Content-Length: %d\r\n\r\n" % HUGE + b"x" * HUGE),
    "a body of one-byte chunks": answering(CHUNKED + b"1\r\nx\r\n" * HUGE + b"0\r\n\r\n"),
    "a hundred headers": answering(OK + b"X: y\r\n" * 100 + NO_BODY),
    "bytes above ASCII": answering(OK + b"X: \xff\xfe\r\n" + NO_BODY),
}
"""Answers that say success, whatever else they say."""

DOUBT: dict[str, Act] = {
    "an end before an answer": ending(b""),
    "a half closed connection before an answer": half_closing(b""),
    "a reset before an answer": resetting(b""),
    "an interim answer and an end": ending(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "half a head and an end": ending(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "less than its length": ending(OK + b"Content-Length: 5\r\n\r\nhi"),
    "less than its length, half closed": half_closing(OK + b"Content-Length: 5\r\n\r\nhi"),
    "an end inside a chunk": ending(CHUNKED + b"5\r\nab"),
    "an end before the last chunk": ending(CHUNKED + b"2\r\nhi\r\n"),
    "two codings and an end inside a chunk": ending(
        OK + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"
    ),
    "more than its length": answering(OK + b"Content-Length: 2\r\n\r\nhi" + b"more"),
    "more than its length at the last": answering(
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi" + b"more"
    ),
    "a chunk of no size": answering(CHUNKED + b"ZZ\r\n"),
    "a chunk of a huge size": ending(CHUNKED + b"f" * 40 + b"\r\nhi"),
    "two lengths": answering(OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi!"),
    "two lengths in one line": answering(OK + b"Content-Length: 2, 3\r\n\r\nhi!"),
    "two bad lengths": answering(OK + b"Content-Length: +2\r\nContent-Length: +2\r\n\r\nhi"),
    "a length beside chunks": answering(
        OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
    ),
    "a huge length": ending(OK + b"Content-Length: 99999999999999999999\r\n\r\n"),
    "another protocol": answering(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "a TLS alert": answering(b"\x15\x03\x01\x00\x02\x02\x28"),
    "HTTP/2": answering(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00"),
    "a page without a head": ending(b"<html><body>hello</body></html>"),
    "a status of two digits": answering(b"HTTP/1.1 99 OK\r\n" + NO_BODY),
    "a status of four digits": answering(b"HTTP/1.1 2000 OK\r\n" + NO_BODY),
    "another protocol from now on": answering(
        b"HTTP/1.1 101 Fine\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nabc"
    ),
    "a thousand headers": answering(OK + b"X: y\r\n" * 1000 + NO_BODY),
    "a huge header in pieces": in_pieces(OK + b"X: " + b"y" * 8000, b"y" * 8000, b"\r\n\r\n"),
    "a bare CR in a header": answering(OK + b"X: a\rb\r\n" + NO_BODY),
    "a header without a name": answering(OK + b": a\r\n" + NO_BODY),
    "a header without a colon": answering(OK + b"nonsense\r\n" + NO_BODY),
    "a space before the colon": answering(OK + b"X : a\r\n" + NO_BODY),
    "a status of nothing": ending(b"HTTP/1.1 000 OK\r\n" + NO_BODY),
    "HTTP/9.9": answering(b"HTTP/9.9 200 OK\r\n" + NO_BODY),
    "NUL in a header": answering(OK + b"X: a\0b\r\n" + NO_BODY),
    "endless interim answers": answering(b"HTTP/1.1 100 Continue\r\n\r\n" * 5000),
}
"""Answers that leave open whether the request was served."""
