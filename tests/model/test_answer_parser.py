"""Answers from bytes: however they are cut, and whatever they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postdate.delivery.answer_parser import ANSWER_BYTES, AnswerParser, with_one_length

ANSWERS = (
    b"HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nX:y\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.0 200 OK\r\n\r\nhello",
    b"HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"SSH-2.0-OpenSSH_9.6\r\n",
)


def read(*pieces: bytes) -> tuple[object, ...]:
    parser = AnswerParser()
    for piece in pieces:
        if parser.feed(piece):
            break
    parser.end()
    failed = parser.failure is not None or not parser.complete
    return failed, parser.status, parser.body, parser.headers, parser.reusable


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_means_the_same_however_it_is_cut(answer: bytes) -> None:
    whole = read(answer)
    assert read(*(bytes([byte]) for byte in answer)) == whole
    for cut in range(1, len(answer)):
        assert read(answer[:cut], answer[cut:]) == whole


def test_what_each_of_them_means() -> None:
    meaning = [read(answer)[:3] for answer in ANSWERS]
    assert meaning == [
        (False, 200, b"hello"),
        (False, 503, b""),
        (False, 200, b"hello"),
        (False, 200, b"hello"),
        (False, 200, b"hello"),
        (False, 204, b""),
        (True, 0, b""),
        (True, 0, b""),
    ]


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_no_bytes_raise(pieces: list[bytes]) -> None:
    read(*pieces)
    read(b"HTTP/1.1 200 OK\r\n", *pieces)
    read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *pieces)


@given(st.integers(0, len(ANSWERS) - 1), st.data())
def test_a_changed_byte_raises_nothing(chosen: int, data: st.DataObject) -> None:
    answer = bytearray(ANSWERS[chosen])
    at = data.draw(st.integers(0, len(answer) - 1))
    answer[at] = data.draw(st.integers(0, 255))
    read(bytes(answer))


def test_a_connection_has_one_answer_after_the_other() -> None:
    parser = AnswerParser()
    for text in (b"one", b"two"):
        parser.begin()
        assert parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n" + text)
        assert (parser.body, parser.reusable) == (text, True)


def test_a_body_is_kept_up_to_its_limit() -> None:
    parser = AnswerParser()
    parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n")
    assert parser.feed(b"x" * (ANSWER_BYTES + 1))
    assert (len(parser.body), parser.reusable) == (ANSWER_BYTES, False)


@pytest.mark.parametrize(
    ("head", "merged"),
    [
        (b"H\r\nContent-Length: 5\r\n\r\n", None),
        (b"H\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", None),
        (b"H\r\nContent-Length: 5, 6\r\n\r\n", None),
        (b"H\r\nContent-Length: \r\nContent-Length: \r\n\r\n", None),
        (b"H\r\nContent-Length: 5, 5\r\n\r\n", b"H\r\nContent-Length: 5\r\n\r\n"),
        (
            b"H\r\nA: b\r\ncontent-length : 5\r\nCONTENT-LENGTH:5\r\n\r\n",
            b"H\r\nContent-Length: 5\r\nA: b\r\n\r\n",
        ),
    ],
)
def test_equal_lengths_are_one(head: bytes, merged: bytes | None) -> None:
    assert with_one_length(head) == merged
