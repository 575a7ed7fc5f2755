"""Operations of accounts. Written by `make docs` from the endpoints."""

from typing import Final

from postdate.client.models.accounts import Account, AccountList, AdjustedAccount, Statement
from postdate.client.operation import Operation

CREATE_ACCOUNT: Final = Operation("create_account", "POST", "/accounts", Account, keyed=True)
LIST_ACCOUNTS: Final = Operation("list_accounts", "GET", "/accounts", AccountList)
GET_ACCOUNT: Final = Operation("get_account", "GET", "/accounts/{account_id}", Account)
CHANGE_ACCOUNT: Final = Operation(
    "change_account",
    "PATCH",
    "/accounts/{account_id}",
    Account,
    nulls=frozenset({"max_amount", "note"}),
)
FREEZE_ACCOUNT: Final = Operation(
    "freeze_account", "POST", "/accounts/{account_id}/freeze", Account
)
UNFREEZE_ACCOUNT: Final = Operation(
    "unfreeze_account", "POST", "/accounts/{account_id}/unfreeze", Account
)
CLOSE_ACCOUNT: Final = Operation("close_account", "DELETE", "/accounts/{account_id}", Account)
LIST_ACCOUNT_ENTRIES: Final = Operation(
    "list_account_entries", "GET", "/accounts/{account_id}/entries", Statement
)
ADJUST_ACCOUNT: Final = Operation(
    "adjust_account", "POST", "/accounts/{account_id}/adjustments", AdjustedAccount, keyed=True
)
