"""The page that shows the schema says what a migrated database has."""

from postdate.database.embedded import Embedded
from tidy import schema


async def test_the_schema_page_is_what_a_migrated_database_has(server: Embedded) -> None:
    assert await schema.render(server) == schema.PAGE.read_text(), "run `make docs`"


async def test_the_shipped_catalog_is_what_a_migrated_database_has(server: Embedded) -> None:
    assert await schema.describe(server) == schema.CATALOG.read_text(), "run `make docs`"
