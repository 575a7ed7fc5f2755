from ipaddress import ip_address

import pytest

from postdate.destination.spec.broker_url import BrokerUrl, kafka_brokers, parse_broker_url

V4, V6 = ip_address("10.0.0.1"), ip_address("2001:db8::1")
PORTS = {"redis": 6379, "rediss": 6380}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("redis://Cache.example", ("redis", "cache.example", 6379, None, None, "")),
        ("rediss://cache.example/2", ("rediss", "cache.example", 6380, None, None, "2")),
        (
            "redis://u:p%40ss@10.0.0.1:6400",
            ("redis", V4, 6400, "u", "p@ss", ""),
        ),
        (
            "redis://:p@[2001:db8::1]:6400/",
            ("redis", V6, 6400, None, "p", ""),
        ),
        ("redis://u@h/%2Fa", ("redis", "h", 6379, "u", None, "/a")),
        ("redis://u:@h", ("redis", "h", 6379, "u", "", "")),
    ],
)
def test_a_broker_s_url_is_taken_apart(text: str, parts: tuple[object, ...]) -> None:
    found = parse_broker_url(text, PORTS)
    assert isinstance(found, BrokerUrl)
    assert (found.scheme, found.host, found.port, found.user, found.password, found.path) == parts
    assert "p@ss" not in repr(found)


def test_the_operator_s_list_of_kafka_brokers_is_written_in_one_way() -> None:
    listed = kafka_brokers(" Kafka-1.example , 10.0.0.1:9093,[2001:DB8::1] ,")
    assert listed == {"kafka-1.example:9092", "10.0.0.1:9093", "[2001:db8::1]:9092"}
    assert kafka_brokers("") == frozenset()
    with pytest.raises(ValueError, match="k:99999"):
        kafka_brokers("k:9092,k:99999")
