"""A sample noun, declared in one file: whatever shows a field of it has derived the field."""

from typing import Annotated, Any, Final

from msgspec import Meta

from postdate.core.field import Name
from postdate.core.identity import Identity, Scope
from postdate.core.shape import Spec, View
from postdate.database.connection.database import Connection, Database
from postdate.http.routes import Routes
from postdate.resource.change import Change, Changes, Given
from postdate.resource.endpoints import ServedClass, serve
from postdate.resource.resource import CountLimit, Resource
from postdate.words.error import Code, not_found, refuse

TABLE: Final = """
CREATE TABLE postdate.beacon (
    tenant_id integer NOT NULL, name text NOT NULL, candela integer NOT NULL, lit boolean NOT NULL,
    PRIMARY KEY (tenant_id, name));
GRANT SELECT, INSERT, UPDATE, DELETE ON postdate.beacon TO postdate_writer;
"""
COLUMNS: Final = "name, candela, lit"

Candela = Annotated[int, Meta(ge=1, le=1000, description="How bright it is.", examples=[40])]


class BeaconSpec(Spec, kw_only=True):
    """A new beacon."""

    name: Name
    candela: Candela
    code: Annotated[
        str | None, Meta(description="Its code.", examples=["7-7"], extra={"secret": True})
    ] = None


class BeaconView(View, frozen=True):
    """A beacon."""

    name: Name
    candela: Candela
    lit: Annotated[bool, Meta(description="Whether it shines.", examples=[True])]


class CreatedBeacon(BeaconView, frozen=True):
    """A new beacon; its code is shown only now."""

    code: Annotated[str | None, Meta(description="Its code.", examples=["7-7"])]


async def _count(connection: Connection, tenant_id: int) -> int:
    text = "SELECT count(*) FROM postdate.beacon WHERE tenant_id = $1"
    return int(await connection.fetchval(text, tenant_id))


BEACON: Final = Resource(
    noun="beacon",
    spec=BeaconSpec,
    shows=BeaconView,
    read=Scope.JOBS_READ,
    write=Scope.ADMIN,
    patchable=("candela",),
    limit=CountLimit("destination.max_count", _count),
    columns=("name", "candela"),
)


class BeaconViews:
    """Find and list beacons."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @BEACON.list()
    async def page(
        self, tenant_id: int, after: str, limit: int
    ) -> tuple[list[BeaconView], str | None]:
        """List beacons.

        By name.
        """
        text = f"""SELECT {COLUMNS} FROM postdate.beacon WHERE tenant_id = $1 AND name > $2
                    ORDER BY name LIMIT $3"""
        async with self.database.connection() as connection:
            rows = await connection.fetch(text, tenant_id, after, limit + 1)
        found = [BeaconView(*row) for row in rows]
        return found[:limit], found[limit - 1].name if len(found) > limit else None

    @BEACON.get()
    async def find(self, tenant_id: int, name: str) -> BeaconView | None:
        """Show a beacon.

        Whether it shines.
        """
        async with self.database.connection() as connection:
            return await _find(connection, tenant_id, name)


class Beacons(Changes):
    """Change beacons."""

    @BEACON.create(shown_once=("code",), hashed=("code",))
    async def create(self, change: Change[Identity], spec: BeaconSpec) -> CreatedBeacon:
        """Create a beacon.

        Its code is shown once.
        """
        values = change.tenant_id, spec.name, spec.candela
        done = await change.connection.execute(
            "INSERT INTO postdate.beacon VALUES ($1, $2, $3, true) ON CONFLICT DO NOTHING", *values
        )
        if done != "INSERT 0 1":
            raise refuse(Code.CONFLICT, "The name is taken.", "name")
        made = CreatedBeacon(spec.name, spec.candela, lit=True, code=spec.code)
        await change.record(spec.name, made)
        return made

    @BEACON.change()
    async def change(self, change: Change[Identity], name: str, given: Given) -> None:
        """Change a beacon.

        Its brightness.
        """
        text = "UPDATE postdate.beacon SET candela = $3 WHERE tenant_id = $1 AND name = $2"
        await change.connection.execute(text, change.tenant_id, name, given["candela"])
        await change.record(name, await _find(change.connection, change.tenant_id, name))

    @BEACON.act("douse", "doused")
    async def douse(self, change: Change[Identity], name: str) -> None:
        """Douse a beacon.

        Dousing twice changes nothing.
        """
        text = "UPDATE postdate.beacon SET lit = false WHERE tenant_id = $1 AND name = $2 AND lit"
        if await change.connection.execute(text, change.tenant_id, name) == "UPDATE 1":
            await change.record(name, {"name": name})

    @BEACON.delete()
    async def delete(self, change: Change[Identity], name: str) -> None:
        """Delete a beacon.

        Its name can be reused.
        """
        text = "DELETE FROM postdate.beacon WHERE tenant_id = $1 AND name = $2"
        if await change.connection.execute(text, change.tenant_id, name) != "DELETE 1":
            raise not_found("beacon", name)
        await change.record(name, {"name": name})


async def _find(connection: Connection, tenant_id: int, name: str) -> BeaconView | None:
    text = f"SELECT {COLUMNS} FROM postdate.beacon WHERE tenant_id = $1 AND name = $2"
    row: Any = await connection.fetchrow(text, tenant_id, name)
    return None if row is None else BeaconView(*row)


def routes(find: Any) -> Routes:
    """Return the endpoints of beacons; `find` gives the database of a node's services."""
    return serve(
        "beacons",
        ServedClass(BeaconViews, lambda services: BeaconViews(find(services))),
        ServedClass(Beacons, lambda services: Beacons(find(services))),
    )
