"""`postdate account repair`: reset an account to what its entries say, by two persons."""

from postdate.account.change.repair import Repairs
from postdate.cli.database import with_database
from postdate.cli.output import show
from postdate.cli.remote import server
from postdate.database.connection.database import Database
from postdate.key.authentication.identity import Identities
from postdate.ledger.repair import Repair
from postdate.words.error import Code, refuse


def account_repair(account_id: str, *, request: str | None = None, approve: bool = False) -> None:
    """Reset balance, held and version to what entries and open payments say.

    Without an option nothing is written. One person requests the repair, and another approves it
    with their own key (POSTDATE_API_KEY). Connects directly to the database.

    Parameters
    ----------
    account_id
        An account of the key's tenant.
    request
        Request the repair, with the reason.
    approve
        Approve the repair that another person has requested within the last day.

    """

    async def run(database: Database) -> Repair:
        actor = await Identities(database).authenticate(server().api_key)
        if actor is None:
            raise refuse(Code.UNAUTHENTICATED, "The key is not valid.")
        repairs = Repairs(database)
        if approve:
            return await repairs.approve(actor, account_id)
        if request is not None:
            return await repairs.request(actor, account_id, request)
        return await repairs.look(actor, account_id)

    if approve and request is not None:
        raise refuse(Code.INVALID_FIELD, "Give either --request or --approve, not both.", "approve")
    found = with_database(run)
    done = "repaired" if approve else "requested" if request is not None else "dry run"
    answer = {
        "account_id": account_id,
        "done": done if found.is_needed else "nothing to repair",
        "before": found.before,
        "after": found.after,
        "difference": found.difference,
        "jumps": found.jumps,
    }
    show(answer)
