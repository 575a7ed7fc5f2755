"""A task of Django that is a part of the caller's own transaction."""

import asyncio
from typing import Any

import pytest

from conftest import Api
from postdate.client.own_transaction import refusals
from postdate.client.problems import InvalidFieldError
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from support.own_transaction import PASSWORD, OwnRole, own_role


def enqueue_each_way(role: OwnRole) -> dict[str, Any]:
    """Enqueue in a transaction that is committed, in one rolled back, and in none."""
    from django.db import connections, transaction
    from django.test import override_settings
    from psycopg.conninfo import conninfo_to_dict

    from support import django_project

    known = conninfo_to_dict(role.dsn)
    connections.databases["shop"] = connections.configure_settings(
        {
            "default": {},
            "shop": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": known["dbname"],
                "HOST": known["host"],
                "PORT": known.get("port", ""),
                "USER": role.name,
                "PASSWORD": PASSWORD,
            },
        }
    )["shop"]
    options = {"enqueue": "in_transaction", "database": "shop", "url": "http://127.0.0.1:1"}
    backend = {"BACKEND": "postdate.django.backend.PostdateBackend", "OPTIONS": options}
    found: dict[str, Any] = {}
    try:
        with override_settings(TASKS={"default": backend | {"QUEUES": []}}):
            with transaction.atomic("shop"):
                found["kept"] = django_project.add.enqueue(1, two=2).id
            with transaction.atomic("shop"):
                found["lost"] = django_project.add.enqueue(2).id
                transaction.set_rollback(True, "shop")
            found["alone"] = django_project.later.enqueue("tea").id
            with pytest.raises(InvalidFieldError) as refused, refusals():
                django_project.add.using(queue_name="no lane").enqueue(3)
            found["field"] = refused.value.field
    finally:
        connections["shop"].close()
        del connections["shop"]
    return found


async def test_committed_means_enqueued(
    api: Api, server: Embedded, database_name: str, database: Database
) -> None:
    async with own_role(server, database_name, database, api.tenant) as role:
        found = await asyncio.to_thread(enqueue_each_way, role)
    assert found["field"] == "lane"
    kept = (await api.call("GET", f"/jobs/{found['kept']}")).body
    assert (kept["payload"], kept["lane"]) == ({"args": [1], "kwargs": {"two": 2}}, "default")
    assert kept["metadata"] == {"kind": "support.django_project.add"}
    assert (await api.call("GET", f"/jobs/{found['lost']}")).status == 404
    assert (await api.call("GET", f"/jobs/{found['alone']}")).body["lane"] == "mail"
