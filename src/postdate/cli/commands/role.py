"""`postdate role`: logins of the embedded database, for programs with transactions of their own."""

from typing import Annotated

import cyclopts
import uvloop
from cyclopts import Parameter

from postdate.cli.command_table import HELP
from postdate.cli.database import configured, with_database
from postdate.cli.output import show
from postdate.database.embedded import credentials, roles
from postdate.tenant.change.client_role import SCOPES, ClientRoles
from postdate.words.error import Code, StartError, refuse

role_app = cyclopts.App(name="role", help=HELP["role"])


@role_app.command(name="create")
def role_create(
    name: str,
    *,
    tenant: Annotated[str, Parameter(help="The tenant that it acts for.")],
    scope: Annotated[
        tuple[str, ...], Parameter(help="jobs:write, payments:write or both.")
    ] = SCOPES,
    account: Annotated[
        tuple[str, ...], Parameter(help="Only these accounts may pay; may be repeated.")
    ] = (),
    max_amount: Annotated[int | None, Parameter(help="The most that one payment may move.")] = None,
) -> None:
    """Create a login with a schema of its own, let it act for a tenant, and print its address.

    The address has the password, which is shown only now.
    """
    settings = configured()
    if settings.database_url:
        raise StartError(
            "this database is not the embedded one: create the role there, "
            f"then run `postdate tenant bind-role {name} --tenant {tenant}`"
        )
    found = credentials.read(settings.data_dir)
    if found is None:
        raise StartError(f"{settings.data_dir} has no database yet: run `postdate serve` first")
    # A wrong tenant or scope is refused before a login is made.
    with_database(lambda database: ClientRoles(database).check(tenant, scope))
    dsn = uvloop.run(roles.create_login(found, name))
    if dsn is None:
        raise refuse(Code.CONFLICT, f"There is a role {name} already.", "name")
    with_database(
        lambda database: ClientRoles(database).bind(
            name, tenant, scope, list(account) or None, max_amount
        )
    )
    show({"role": name, "tenant": tenant, "schema": name, "dsn": dsn})
