"""Hostile settings of brokers: each is refused as what it is, before anything is connected to."""

from typing import Any

from conftest import Api

PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

REFUSED: list[tuple[str, dict[str, Any]]] = [
    *(
        ("nats", {"servers": [server]})
        for server in (
            "ws://127.0.0.1:4222",
            "wss://127.0.0.1:4222",
            "http://127.0.0.1:4222",
            "nats://127.0.0.1:65536",
            "nats://127.0.0.1:0",
            "nats://127.0.0.1:-1",
            "nats://127.0.0.1:4222,127.0.0.2:4222",
            "nats://user:word@127.0.0.1:4222",
            "nats://127.0.0.1:4222@127.0.0.2",
            "nats://127.0.0.1:4222/path",
            "nats://127.0.0.1:4222?tls=1",
            "nats://127.0.0.1:4222#x",
            "nats://127.0.0.1:25",
            "nats://127.1:4222",
            "nats://0x7f000001:4222",
            "nats://[::1%25lo]:4222",
            "nats://10.0.0.1:4222",
            "nats://[::ffff:169.254.169.254]:4222",
            "nats://",
            "nats://a b:4222",
            "nats://\t:4222",
            "nats://" + "a" * 3000,
            "",
        )
    ),
    ("nats", {"servers": ["nats://127.0.0.1"] * 17}),
    ("nats", {"servers": ["nats://127.0.0.1"], "ca_pem": PEM}),
    ("nats", {"servers": ["nats://127.0.0.1"], "certfile": "/etc/passwd"}),
    *(
        ("redis", {"url": url})
        for url in (
            "redis://127.0.0.1:6379/0?protocol=3",
            "redis://127.0.0.1:6379/0?colour=1",
            "rediss://127.0.0.1:6379/0?ssl_ca_certs=/etc/passwd",
            "rediss://127.0.0.1:6379/0?ssl_cert_reqs=none",
            "redis://127.0.0.1:6379?host=10.0.0.1",
            "unix:///var/run/redis.sock",
            "redis://127.0.0.1:65536/0",
            "redis://127.0.0.1:99999999999/0",
            "redis://127.0.0.1/zero",
            "redis://127.0.0.1/-1",
            "redis://127.0.0.1/0/1",
            "redis://127.0.0.1:6379,10.0.0.1:6379/0",
            "redis://:%0d%0aMAIL@127.0.0.1/0",
            "redis://u@v@127.0.0.1/0",
            "redis://u:p:q@127.0.0.1/0",
            "redis://:%ff@127.0.0.1/0",
            "redis://10.0.0.1/0",
            "REDIS://127.0.0.1/0 ",
            "redis://127.0.0.1:25/0",
        )
    ),
    ("redis", {"url": "redis://127.0.0.1", "max_length": 2**64}),
    ("redis", {"url": "redis://127.0.0.1", "ca_pem": "x"}),
    *(
        ("rabbitmq", {"url": url})
        for url in (
            "amqps://127.0.0.1/?certfile=/etc/passwd&keyfile=/etc/passwd",
            "amqps://127.0.0.1/?cafile=/etc/shadow",
            "amqps://127.0.0.1/?no_verify_ssl=1",
            "amqp://127.0.0.1/?heartbeat=x",
            "amqp://127.0.0.1:65536/",
            "amqp://127.0.0.1:x/",
            "amqp://[::1/",
            "amqp://",
            "amqp:127.0.0.1",
            "http://127.0.0.1/",
            "amqp://169.254.169.254/",
        )
    ),
    *(
        ("kafka", {"brokers": brokers})
        for brokers in (
            ["127.0.0.1:9092"],
            ["kafka:9092,10.0.0.1:9092"],
            ["127.0.0.1:65536"],
            ["SASL_SSL://kafka:9092"],
            [""],
        )
    ),
    ("kafka", {"brokers": ["kafka"], "sasl.mechanism": "GSSAPI"}),
    ("kafka", {"brokers": ["kafka"], "security.protocol": "x"}),
    ("kafka", {"brokers": ["kafka"], "ssl.ca.location": "/etc/passwd"}),
]


async def test_hostile_settings_are_refused_as_what_they_are(api: Api) -> None:
    answers = []
    for number, (kind, config) in enumerate(REFUSED):
        body = {"name": f"q{number}", "type": "queue", "kind": kind, "config": config}
        answer = await api.call("POST", "/destinations", {**body, "force": True})
        answers.append((kind, config, answer.status, answer.body.get("field")))
    assert [each for each in answers if each[2:] != (422, "config")] == []
