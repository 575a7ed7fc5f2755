"""Money: bounds of amounts and balances, and the names of accounts."""

from typing import Final

MAX_AMOUNT: Final = 2**53
"""The largest amount of anything: every JSON reader can hold it exactly."""

MAX_BALANCE: Final = 2**62
"""No balance lies further from zero than this, so that sums fit the database's integers."""

ISSUER: Final = "issuer"
"""The account that every adjustment comes from or goes to; it alone has no floor."""

CURRENCY: Final = r"^[A-Z]{3}$(?!\n)"
"""What a currency is called: three letters, as in ISO 4217."""

ACCOUNT_ID: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:@-]{0,63}$(?!\n)"
"""What an account may be called. Python's `$` alone would let a line end slip in."""
