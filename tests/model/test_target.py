from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from postdate.destination.spec.target import (
    Malformed,
    Target,
    check_url,
    networks,
    parse,
    refuse_address,
)
from postdate.words.error import Code, Refusal
from support.target_corpus import ADDRESSES, MALFORMED, PRIVATE, PUBLIC

NONE = networks("")
LOOPBACK = networks("127.0.0.0/8, ::1/128")
METADATA = """169.254.169.254 168.63.129.16 100.100.100.200 0.0.0.0 224.0.0.1 255.255.255.255
fd00:ec2::254 :: ff02::1 ::ffff:169.254.169.254 64:ff9b::169.254.169.254"""
EVERYTHING = networks("0.0.0.0/0,::/0")


def literal(address: str) -> str:
    return f"http://[{address}]/" if ":" in address else f"http://{address}/"


def test_the_corpus_is_large_and_has_no_twins() -> None:
    hostile = [*map(literal, ADDRESSES), *MALFORMED, *PRIVATE]
    assert len(set(hostile)) == len(hostile) >= 120


@pytest.mark.parametrize("url", [*map(literal, ADDRESSES), *PRIVATE])
def test_a_private_target_is_refused(url: str) -> None:
    refusal = check_url(url, NONE, "destination.url")
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.field) == (Code.TARGET_NOT_ALLOWED, "destination.url")


@pytest.mark.parametrize("url", MALFORMED)
def test_a_malformed_url_is_refused_even_where_everything_is_allowed(url: str) -> None:
    refusal = check_url(url, EVERYTHING)
    assert refusal is not None
    assert refusal.code is Code.INVALID_FIELD


@pytest.mark.parametrize("url", PUBLIC)
def test_a_public_target_passes(url: str) -> None:
    assert check_url(url, NONE) is None


@pytest.mark.parametrize("url", PUBLIC)
def test_the_http_client_reads_the_same_host(url: str) -> None:
    target = parse(url)
    assert isinstance(target, Target)
    read = URL(target.url, encoded=True)
    assert (read.scheme, read.port, read.raw_path_qs) == (target.scheme, target.port, target.path)
    host = read.raw_host or ""
    assert (ip_address(host) if target.address else host) == (target.address or target.host)
    assert parse(target.url) == target


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080/", "http://localhost/", "http://[::1]/", PRIVATE[-1]]
)
def test_an_allowed_network_opens_what_it_contains(url: str) -> None:
    assert check_url(url, LOOPBACK) is None


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.1", "fd00::1", "::ffff:10.0.0.1"])
def test_an_allowed_network_opens_nothing_else(address: str) -> None:
    assert refuse_address(ip_address(address), LOOPBACK) is not None


@pytest.mark.parametrize(
    "address",
    [*METADATA.split()],
)
def test_no_allowed_network_opens_metadata_nobody_or_everybody(address: str) -> None:
    assert refuse_address(ip_address(address), EVERYTHING) is not None


def test_an_allowed_network_does_not_open_what_is_wrapped_in_it() -> None:
    wrapper = networks("2002::/16,64:ff9b:1::/48")
    assert refuse_address(IPv6Address("2002:7f00:1::1"), wrapper) is not None
    assert refuse_address(IPv6Address("2002:808:808::1"), wrapper) is None


@given(st.ip_addresses(v=4))
@example(IPv4Address("127.0.0.1"))
def test_a_wrapped_address_is_no_freer_than_the_plain_one(plain: IPv4Address) -> None:
    if refuse_address(plain, NONE) is None:
        return
    for prefix in (b"\0" * 10 + b"\xff\xff", bytes.fromhex("0064ff9b") + b"\0" * 8, b"\0" * 12):
        assert refuse_address(IPv6Address(prefix + plain.packed), NONE) is not None
    sixtofour = IPv6Address(b"\x20\x02" + plain.packed + b"\0" * 9 + b"\x01")
    assert refuse_address(sixtofour, NONE) is not None


@given(st.text(max_size=60))
@example("http://\u0130.example/")
def test_whatever_is_parsed_is_written_in_plain_ascii(text: str) -> None:
    target = parse("http://" + text)
    assert isinstance(target, Malformed) or (target.url.isascii() and target.url.isprintable())
