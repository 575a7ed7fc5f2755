"""`postdate secret`: generate the key that encrypts secrets, and rotate to it."""

import secrets

import cyclopts

from postdate.cli.command_table import HELP
from postdate.cli.database import with_database
from postdate.cli.output import show
from postdate.database.connection.database import Database
from postdate.node import keyring
from postdate.node.settings import load
from postdate.secret import secret_rotation
from postdate.secret.secret import KEY_BYTES, SecretError
from postdate.words.error import StartError

secret_app = cyclopts.App(name="secret", help=HELP["secret"])


@secret_app.command
def generate() -> None:
    """Print a new key for POSTDATE_SECRET_KEY; nothing is changed."""
    show({"key": secrets.token_bytes(KEY_BYTES).hex()})


@secret_app.command
def rotate() -> None:
    """Re-encrypt every secret with the first key; the others are then no longer needed."""
    keys = keyring.load(load())

    async def run(database: Database) -> int:
        try:
            return await secret_rotation.rotate(database, keys)
        except SecretError as error:
            raise StartError(f"a secret is unreadable: {error}") from error

    changed = with_database(run)
    show({"rotated": changed, "key_id": f"{keys.newest:08x}"})
