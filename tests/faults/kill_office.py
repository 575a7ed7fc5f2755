"""What persons set up, killed: keys, tenants, sessions, destinations, secrets, subscriptions."""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final
from uuid import UUID, uuid4

import msgspec

from faults.kill import KillOperation
from faults.kill_change_sets import SECRET_KEY, Served
from faults.sweep_money import AMOUNT, MoneyOperation, identity
from postdate.account.change.repair import Repairs
from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.core.ids import new_id
from postdate.database.connection.database import Database
from postdate.destination.spec.destination import (
    Destination,
    DestinationPauseBody,
    DestinationResumeBody,
    DestinationSpec,
    RotateBody,
)
from postdate.destination.store.directory import DestinationDirectory
from postdate.foresight.spec.money import FailingPayment
from postdate.intake.create_once import CreateRequest, Remember, Shown
from postdate.intake.idempotency import Granted
from postdate.job.spec.job import Webhook
from postdate.key.change.session import EXTEND_SECONDS, ConsoleSessions
from postdate.key.spec import KeyRotateBody, KeySpec
from postdate.lane.spec import NewLane
from postdate.payment.accept.warning import PaymentWarnings
from postdate.secret import secret_rotation
from postdate.secret.receipt_key import ReceiptKeys
from postdate.secret.secret import Keyring
from postdate.subscription.spec import ReplayBody, SubscriptionPauseBody, SubscriptionSpec
from postdate.tenant.change.tenant import LIVE, TenantMode, Tenants
from support.declared import remembering

OLD: Final = bytes.fromhex(SECRET_KEY)
NEW: Final = b"n" * 32
HOOK: Final = DestinationSpec(name="hook", url="https://example.com/")


class Done(msgspec.Struct, frozen=True):
    """An answer that says nothing."""


class Office(Served):
    """Steps of which each is done once: who goes on looks which of them are told of."""

    mode: ClassVar[TenantMode] = LIVE

    async def prepare(self) -> None:
        name = f"office-{uuid4().hex}"
        issued = await Tenants(self.nodes.direct).open(name, "test", mode=self.mode)
        self.tenant_id = await self.nodes.direct.writer.fetchval(
            "SELECT tenant_id FROM api_key WHERE key_id = $1", issued.key_id
        )
        who = identity(self.tenant_id)
        self.who = msgspec.structs.replace(who, tenant=name, key_id=str(issued.key_id))

    async def steps(self, made: Services) -> None:
        raise NotImplementedError

    async def once(
        self, made: Services, operation: str, create: Callable[[Remember[Any]], Awaitable[Any]]
    ) -> None:
        """Ask under a key, as an endpoint does."""
        wanted = CreateRequest(tenant_id=self.tenant_id, operation=operation, key="key", members={})
        answer = await made.once.run(wanted, create, lambda _: Shown(Done(), Done()), 201)
        assert isinstance(answer, Granted), answer

    async def unless_told(
        self, kind: str, change: Callable[[], Awaitable[Any]], times: int = 1
    ) -> None:
        if await self.told(kind) < times:
            await change()

    async def act(self) -> None:
        async with self.served(self.nodes.proxied) as made:
            await self.steps(made)

    async def finish(self) -> None:
        async with self.served(self.nodes.direct) as made:
            await self.steps(made)


class KeyLife(Office):
    """A key is made, replaced and ended."""

    name = "keys"

    async def _made(self) -> list[UUID]:
        rows = await self.nodes.proxied.writer.fetch(
            "SELECT key_id FROM api_key WHERE tenant_id = $1 AND note = 'made' ORDER BY key_id",
            self.tenant_id,
        )
        return [row["key_id"] for row in rows]

    async def steps(self, made: Services) -> None:
        keys, who = made.key.change, self.who
        spec = KeySpec(scopes=[Scope.JOBS_READ], note="made")
        await self.once(made, "key", lambda r: remembering(keys.create, r)(who, spec))
        first = (await self._made())[0]
        now = KeyRotateBody(overlap_seconds=0.0)
        await self.once(made, "key.rotate", lambda r: remembering(keys.rotate, r)(who, first, now))
        second = (await self._made())[1]
        await keys.revoke(who, second)

    async def violations(self) -> list[str]:
        self.expect("keys", len(await self._made()), 2)
        ended = "AND (revoked_at IS NOT NULL OR expires_at <= server_clock())"
        self.expect("ended keys", await self.count("api_key", ended), 2)
        await self.expect_told(key_created=3, key_rotated=1, key_revoked=1)
        return await super().violations()


class TenantLife(Office):
    """A tenant is made with its first key, disabled and enabled."""

    name = "tenant"

    async def prepare(self) -> None:
        await super().prepare()
        self.wanted = f"opened-{uuid4().hex}"

    async def _counts(self) -> list[Any]:
        row = await self.nodes.direct.writer.fetchrow(
            """SELECT count(*), count(disabled_at),
                      (SELECT count(*) FROM api_key WHERE tenant_id = max(t.tenant_id)),
                      (SELECT count(*) FROM tenant_halt
                        WHERE tenant_id = max(t.tenant_id) AND lifted_at IS NULL),
                      (SELECT array_agg(type ORDER BY type) FROM event
                        WHERE tenant_id = max(t.tenant_id) AND type LIKE 'tenant.%abled')
                 FROM tenant t WHERE name = $1""",
            self.wanted,
        )
        return list(row or ())

    async def steps(self, made: Services) -> None:
        await self.once(made, "tenant", lambda r: made.tenant.change.open(self.wanted, "test", r))
        halting = made.halt.change
        if "tenant.enabled" not in ((await self._counts())[-1] or []):
            await halting.disable(self.wanted, "a reason", "test")
        await halting.enable(self.wanted, "test")

    async def violations(self) -> list[str]:
        *counts, told = await self._counts()
        self.expect("tenants, disabled, keys, halts", counts, [1, 0, 1, 0])
        self.expect("told of", told, ["tenant.disabled", "tenant.enabled"])
        return await super().violations()


class SessionLife(Office):
    """A session is begun, used and ended: once ended it is nowhere known."""

    name = "session"

    async def prepare(self) -> None:
        await super().prepare()
        self.session = await ConsoleSessions(self.nodes.direct).begin(self.who, "secret")
        await self.advance(EXTEND_SECONDS + 1)

    async def steps(self, made: Services) -> None:
        await made.session.begin(self.who, "another")
        found = await made.session.find(self.session)
        if found not in {"secret", None}:
            self.wrong.append("a session has another's key")
        await made.session.end(self.session)

    async def violations(self) -> list[str]:
        for database in (self.nodes.direct, self.nodes.proxied):
            found = await ConsoleSessions(database).find(self.session)
            self.expect("an ended session", found, None)
        self.expect("sessions left", await self.count("console_session") in {1, 2}, wanted=True)
        return await super().violations()


class ReceiptKeyLife(Office):
    """A new key signs receipts; every one that ever did is published and opens."""

    name = "receipt key"

    async def steps(self, made: Services) -> None:
        keys = made.receipt.keys
        self.signs = (await keys.rotate()).key_id

    async def violations(self) -> list[str]:
        keys = ReceiptKeys(self.nodes.direct, Keyring([OLD]))
        newest, _ = await keys.signer()
        self.expect("the key that signs", newest.key_id, self.signs)
        published = await keys.published()
        self.expect("published twice", len({each.key_id for each in published}), len(published))
        for each in published[:3]:
            keys._open(each)
        return await super().violations()


class DestinationLife(Office):
    """A destination is made, changed, given another secret, stopped, started and removed."""

    name = "destination"

    async def steps(self, made: Services) -> None:
        change, who, name = made.destination.change, self.who, HOOK.name
        await self.once(made, "destination", lambda r: remembering(change.create, r)(who, HOOK))
        if await self.told("destination.deleted"):
            return
        limit, minute = {"max_running": 3}, RotateBody(overlap_seconds=60.0)
        await self.unless_told("destination.changed", lambda: change.change(who, name, limit))
        await self.once(
            made,
            "destination.rotate",
            lambda r: remembering(change.rotate, r)(who, name, minute),
        )
        await self.once(
            made, "signing-secret.rotate", lambda r: change.rotate_signing_secret(who, 60.0, r)
        )
        if not await self.told("destination.enabled"):
            await change.disable(self.tenant_id, name, "a reason")
            await change.enable(who, name)
        if not await self.told("destination.resumed"):
            await change.pause(who, name, DestinationPauseBody(reason="a release"))
            await change.resume(who, name, DestinationResumeBody())
        await change.delete(who, name)

    async def violations(self) -> list[str]:
        await self.expect_told(
            destination_created=1, destination_changed=1, destination_rotated=2,
            destination_disabled=1, destination_enabled=1, destination_paused=1,
            destination_resumed=1, destination_deleted=1,
        )  # fmt: skip
        self.expect("destinations", await self.count("destination"), 0)
        await forget_signing(self)
        return await super().violations()


class LaneLife(Office):
    """A lane is made before its first job."""

    name = "lane"

    async def steps(self, made: Services) -> None:
        create = made.lane.change.create
        await self.once(
            made, "lane", lambda r: remembering(create, r)(self.who, NewLane(lane="early"))
        )

    async def violations(self) -> list[str]:
        await self.expect_told(lane_created=1)
        return await super().violations()


async def forget_signing(operation: Office) -> None:
    """Leave nothing that the next rotation would have to encrypt anew."""
    await operation.nodes.direct.writer.execute(
        "DELETE FROM signing_secret WHERE tenant_id = $1", operation.tenant_id
    )


class RotateSecrets(Office):
    """Everything is encrypted anew; before and after each step some key opens it."""

    name = "rotate secrets"

    async def prepare(self) -> None:
        await super().prepare()
        async with self.served(self.nodes.direct) as made:
            await made.destination.change.create(self.who, HOOK)
            await made.destination.change.signing_secret(self.who)
        self.before = await self.seen(OLD)

    async def seen(self, *keys: bytes) -> list[Any]:
        directory = DestinationDirectory(self.nodes.direct, Keyring(keys))
        return [await directory.resolve(self.tenant_id, name) for name in (HOOK.name, None)]

    async def act(self) -> None:
        await secret_rotation.rotate(self.nodes.proxied, Keyring([NEW, OLD]))

    async def finish(self) -> None:
        self.expect("with both keys", await self.seen(NEW, OLD), self.before)
        await secret_rotation.rotate(self.nodes.direct, Keyring([NEW, OLD]))
        self.expect("with the new key", await self.seen(NEW), self.before)
        # The other operations have the old one.
        await secret_rotation.rotate(self.nodes.direct, Keyring([OLD, NEW]))

    async def violations(self) -> list[str]:
        self.expect("with the old key", await self.seen(OLD), self.before)
        self.expect("readable", [type(each) for each in self.before], [Destination] * 2)
        async with self.served(self.nodes.direct) as made:
            await made.destination.change.delete(self.who, HOOK.name)
        await forget_signing(self)
        return await super().violations()


class SubscriptionLife(Office):
    """A subscription is paused, resumed, sent back and ended; its timer goes with it."""

    name = "subscription"

    async def prepare(self) -> None:
        await super().prepare()
        spec = SubscriptionSpec(destination=Webhook(url="https://example.com/other"), types=[])
        async with self.served(self.nodes.direct) as made:
            self.subscription = (
                await made.subscription.change.create(self.who, spec)
            ).subscription_id

    async def steps(self, made: Services) -> None:
        change, who, key = made.subscription.change, self.who, self.subscription
        if await self.told("subscription.deleted"):
            return
        if not await self.told("subscription.resumed"):
            await change.switch(who, key, SubscriptionPauseBody(paused=True, note="a reason"))
            await change.switch(who, key, SubscriptionPauseBody(paused=False))
        await self.once(
            made,
            "subscription.replay",
            lambda r: remembering(change.replay, r)(who, key, ReplayBody(start="beginning")),
        )
        await change.delete(who, key)

    async def violations(self) -> list[str]:
        await self.expect_told(
            subscription_paused=1, subscription_resumed=1, subscription_replayed=1,
            subscription_deleted=1,
        )  # fmt: skip
        self.expect("subscriptions", await self.count("subscription"), 0)
        self.expect("timers", await self.count("timer"), 0)
        return await super().violations()


class RepairAccount(MoneyOperation, KillOperation):
    """An account is put right by two persons, once."""

    name = "repair account"

    async def prepare(self) -> None:
        await super().prepare()
        await self.nodes.direct.writer.execute(
            "UPDATE account SET held = held + 7 WHERE tenant_id = $1 AND account_id = 'a'",
            self.tenant_id,
        )

    async def repair(self, database: Database) -> None:
        repairs = Repairs(database)
        if not await self.count("event", "AND type = 'account.repair_requested'"):
            await repairs.request(self.who, "a", "a reason")
        if not await self.count("event", "AND type = 'account.repaired'"):
            await repairs.approve(identity(self.tenant_id, 2), "a")

    async def act(self) -> None:
        await self.repair(self.nodes.proxied)

    async def finish(self) -> None:
        await self.repair(self.nodes.direct)

    async def violations(self) -> list[str]:
        self.expect("repairs", await self.count("account_repair"), 1)
        for kind in ("account.repair_requested", "account.repaired"):
            self.expect(kind, await self.count("event", f"AND type = '{kind}'"), 1)
        await self.expect_money((1000, 0), (0, 0))
        return self.wrong


class Warn(MoneyOperation, KillOperation):
    """A payment that will fail is told of once."""

    name = "warn"

    async def prepare(self) -> None:
        await super().prepare()
        now, direct = await self.bank.now(), self.nodes.direct
        self.failing = FailingPayment(
            due_at=now, fails_at=now, code="insufficient_funds", from_account_id="a",
            to_account_id="b", amount=AMOUNT, available=0, schedule_id=None,
            payment_id=new_id(0, direct.unix_ms()),
        )  # fmt: skip

    async def warn(self, database: Database) -> None:
        await PaymentWarnings(database).record_warnings(self.tenant_id, [self.failing], 24.0)

    async def act(self) -> None:
        await self.warn(self.nodes.proxied)

    async def finish(self) -> None:
        await self.warn(self.nodes.direct)

    async def violations(self) -> list[str]:
        self.expect("told", await self.count("event", "AND type = 'payment.will_fail'"), 1)
        return self.wrong


OPERATIONS: list[type[KillOperation]] = [
    KeyLife, TenantLife, SessionLife, ReceiptKeyLife, DestinationLife, LaneLife, RotateSecrets,
    SubscriptionLife, RepairAccount, Warn,
]  # fmt: skip
