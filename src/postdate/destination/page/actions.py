"""Disable, enable and test a destination."""

from typing import Final

from postdate.console.action import REASON, Action, reason_of
from postdate.console.equivalent_command import EquivalentCommand
from postdate.console.page_request import PageRequest
from postdate.console.render import duration
from postdate.core.identity import Scope


async def _disable(request: PageRequest) -> str:
    name: str = request.param("name")
    reason = reason_of(request)
    await request.services.destination.change.disable(
        request.actor.tenant_id, name, reason, request.actor.key_id
    )
    return f"{name} is disabled: jobs for it fail until it is enabled."


async def _enable(request: PageRequest) -> str:
    name: str = request.param("name")
    await request.services.destination.change.enable(request.actor, name)
    return f"{name} is enabled: deliveries resume."


async def _test(request: PageRequest) -> str:
    name: str = request.param("name")
    test = await request.services.destination.test.run(request.actor, name)
    parts = [f"The test of {name} {test.outcome} in {duration(test.duration_ms)}"]
    parts += [f"HTTP {test.http_status}"] if test.http_status else []
    parts += [part for part in (test.code, test.error, test.response) if part]
    return " · ".join(parts)


ACTIONS: Final = (
    Action(
        path="/destinations/{name}/disable",
        scope=Scope.ADMIN,
        title="Disable destination",
        button="Disable",
        means="Jobs for it fail until it is enabled again.",
        back="/destinations/{name}",
        does=_disable,
        same=EquivalentCommand(
            operation="disable_destination",
            method_name="destinations.disable",
            command="destination disable {name} --reason {reason}",
            body=lambda typed: {"reason": typed["reason"]},
        ),
        fields=(REASON,),
        danger=True,
    ),
    Action(
        path="/destinations/{name}/enable",
        scope=Scope.ADMIN,
        title="Enable destination",
        button="Enable",
        means="Deliveries to it resume.",
        back="/destinations/{name}",
        does=_enable,
        same=EquivalentCommand(
            operation="enable_destination",
            method_name="destinations.enable",
            command="destination enable {name}",
        ),
    ),
    Action(
        path="/destinations/{name}/test",
        scope=Scope.ADMIN,
        title="Test destination",
        button="Send test",
        means="Sends one small event of type destination.test; no job is created.",
        back="/destinations/{name}",
        does=_test,
        same=EquivalentCommand(
            operation="test_destination",
            method_name="destinations.test",
            command="destination test {name}",
        ),
    ),
)
