"""`postdate receipt`: check a receipt without the server, show and change the keys that sign."""

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from cyclopts import Parameter

from postdate.cli.commands.event_verify import TAMPERED
from postdate.cli.database import with_database
from postdate.cli.noun import noun_app
from postdate.cli.output import show, wants_json
from postdate.database.connection.database import Database
from postdate.node import keyring
from postdate.node.settings import load
from postdate.secret.receipt_key import ReceiptKeys
from postdate.words.error import StartError

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
"""The largest payloads and seals make a receipt of a few of them."""

receipt_app = noun_app("receipt")


@receipt_app.command
def verify(
    file: Annotated[Path, Parameter(help="The receipt, as it was issued.")],
    *,
    keys: Annotated[Path | None, Parameter(help="What `receipt keys --json` printed.")] = None,
) -> None:
    """Check a receipt without the server; exit 7 if anything in it was changed."""
    from postdate.prover.receipt import check_receipt

    found = check_receipt(_read(file), None if keys is None else _trusted(keys))
    if wants_json():
        show(found)
    else:
        # The facts are wider than any screen: they are read as JSON.
        show({name: getattr(found, name) for name in ("ok", "kind", "subject", "status", "key_id")})
        for finding in found.findings:
            print(f"{finding.field}: {finding.detail}")
    if keys is None:
        hint = "compare key_id with a key that you trust, or give --keys"
        print(f"postdate: the key was not compared: {hint}.", file=sys.stderr)
    if not found.ok:
        sys.exit(TAMPERED)


@receipt_app.command(name="rotate-key")
def rotate_key() -> None:
    """Create a new signing key; receipts signed by the old ones stay valid."""
    keys = keyring.load(load())

    async def run(database: Database) -> str:
        return (await ReceiptKeys(database, keys).rotate()).key_id

    show({"key_id": with_database(run)})


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise StartError(f"{file} cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise StartError(f"{file} is larger than any receipt")
    return data


def _trusted(file: Path) -> set[str]:
    """Read the ids of the trusted keys; refuse a file in which an id does not match its key."""
    from postdate.receipt.spec import key_id_of

    try:
        found: Any = msgspec.json.decode(_read(file))
        listed = found["keys"] if isinstance(found, dict) else found
        ids = {each["key_id"]: bytes.fromhex(each["public_key"]) for each in listed}
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
        raise StartError(f"{file} is not a list of keys: {error}") from error
    if any(key_id_of(public) != key_id for key_id, public in ids.items()):
        raise StartError(f"{file} was changed: a key in it does not match its id")
    return set(ids)
