"""Nodes of the worker role beside the API's, as a fixture of every test that asks for them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from conftest import Api
from postdate.node import worker
from postdate.node.node import Node


@pytest.fixture
async def workers(api: Api) -> AsyncIterator[list[Node]]:
    """Two nodes of the worker role beside the API's."""
    nodes = [
        Node(settings=api.node.settings, database=api.node.database, roles=["worker"])
        for _ in range(2)
    ]
    loops = [loop for node in nodes for loop in (*node.housekeeping(), *worker.loops(node))]
    hints = [asyncio.create_task(node.wakeup.run()) for node in (*nodes, api.node)]
    going = [asyncio.create_task(loop.run()) for loop in loops]
    yield nodes
    for loop in loops:
        loop.stop()
    await asyncio.gather(*going)
    for hint in hints:
        hint.cancel()
    await asyncio.gather(*hints, return_exceptions=True)
    for node in nodes:
        await node.close()
