"""Addresses: another server of a cluster is reached as this one is, but for host and port."""

import pytest

from postdate.database.connection.address import DatabaseNode, of_node

NODE = DatabaseNode(2, "worker-2.internal", 5433)


@pytest.mark.parametrize(
    ("given", "there"),
    [
        (
            "postgresql://app:s%40fe@one:5432,two:5432/postdate?sslmode=require",
            "postgresql://app:s%40fe@/postdate?sslmode=require&host=worker-2.internal&port=5433",
        ),
        (
            "postgresql://app@/postdate?host=127.0.0.1&port=1&target_session_attrs=read-write",
            "postgresql://app@/postdate?host=worker-2.internal&port=5433",
        ),
        ("postgresql://one/postdate", "postgresql:///postdate?host=worker-2.internal&port=5433"),
    ],
)
def test_only_host_and_port_differ(given: str, there: str) -> None:
    assert of_node(given, NODE) == there
