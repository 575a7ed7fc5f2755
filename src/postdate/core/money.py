"""Money: bounds of amounts and balances, names, and amounts as people read and write them.

Everywhere inside and in the API an amount is an integer of its currency's minor unit (cents). For
people it is a number of units with the digits that the currency has: 12550 EUR is 125.50 EUR.
"""

import re
from decimal import Decimal
from functools import lru_cache
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

MINOR_UNIT: Final = "in the currency's minor unit (2500 is 25.00 EUR)"
"""What the API says of every amount."""

MONEY_FIELDS: Final = frozenset({
    "amount", "amount_held", "available", "balance", "closing_balance", "credits", "debits",
    "floor", "held", "max_amount", "missing", "opening_balance", "refunded",
})  # fmt: skip
"""What fields that hold an amount are called, wherever they stand."""

MAX_DIGITS: Final = 4
"""No currency of ISO 4217 has more digits behind the point."""

MAX_TEXT: Final = 64
_MINUS: Final = str.maketrans({"\N{MINUS SIGN}": "-"})
_WRITTEN: Final = re.compile(
    r"(?:(?P<before>[A-Za-z]{3})\s*)?(?P<sign>[+-]?)"
    r"(?P<whole>[0-9]{1,3}(?:[,'_\s][0-9]{3})+|[0-9]{1,30})(?:\.(?P<part>[0-9]{1,10}))?"
    r"(?:\s*(?P<after>[A-Za-z]{3}))?"
)


class MoneyTextError(ValueError):
    """A text is no amount of a currency; the message says in one sentence how to write one."""


@lru_cache(maxsize=1024)
def digits_of(currency: str | None) -> int:
    """Return how many digits of a currency stand behind the point.

    A currency that ISO 4217 does not list, or lists without a minor unit, has whole units only.
    """
    if currency is None:
        return 0
    # The table is read when the first amount with a currency is shown, not by every command.
    from iso4217 import Currency

    try:
        return Currency(currency).exponent or 0
    except ValueError:
        return 0


def money_number(amount: int, currency: str | None, *, group: str = "") -> str:
    """Write an amount as a number of units with the digits of its currency: 846835.89."""
    scale = digits_of(currency)
    whole, part = divmod(abs(amount), 10**scale)
    sign, units = "-" if amount < 0 else "", f"{whole:,}".replace(",", group)
    return f"{sign}{units}.{part:0{scale}}" if scale else f"{sign}{units}"


def money_text(amount: int, currency: str | None) -> str:
    """Write an amount so that people can read it: 846,835.89 EUR; an integer without a currency."""
    number = money_number(amount, currency, group=",")
    return number if currency is None else f"{number} {currency}"


def read_money(text: str, currency: str | None) -> int:
    """Read an amount as people write it, such as 1,250.50 EUR, as integer of the minor unit."""
    found = _WRITTEN.fullmatch(text.strip().translate(_MINUS)) if len(text) <= MAX_TEXT else None
    if found is None or (found["before"] and found["after"]):
        raise MoneyTextError(f"Write an amount such as {_example(currency)}.")
    _check_unit(found["before"] or found["after"], currency)
    scale, part = digits_of(currency), found["part"] or ""
    if len(part) > scale:
        raise MoneyTextError(_too_precise(currency, scale))
    units = re.sub(r"[^0-9]", "", found["whole"])
    amount = int(units + part.ljust(scale, "0"))
    return -amount if found["sign"] == "-" else amount


def read_units(text: str) -> tuple[Decimal, str | None]:
    """Read an amount of whichever currency as a number of units, and the currency it names."""
    found = _WRITTEN.fullmatch(text.strip().translate(_MINUS)) if len(text) <= MAX_TEXT else None
    if found is None or (found["before"] and found["after"]):
        raise MoneyTextError("Write an amount such as 125.50 or 125.50 EUR.")
    named = found["before"] or found["after"]
    number = f"{found['sign']}{re.sub(r'[^0-9]', '', found['whole'])}.{found['part'] or '0'}"
    return Decimal(number), named.upper() if named else None


def units_of(amount: int, currency: str | None) -> Decimal:
    """Return an amount as a number of units."""
    return Decimal(amount).scaleb(-digits_of(currency))


def chart_units(amount: int, currency: str | None) -> float:
    """Return an amount as a number of units for a chart, which draws and labels in units."""
    return float(units_of(amount, currency))


def _check_unit(named: str | None, currency: str | None) -> None:
    if named is None or named.upper() == currency:
        return
    if currency is None:
        raise MoneyTextError("The account names no currency: write the number alone.")
    raise MoneyTextError(f"The account counts in {currency}, not in {named.upper()}.")


def _example(currency: str | None) -> str:
    return money_text(12550, currency)


def _too_precise(currency: str | None, scale: int) -> str:
    if currency is None:
        return "The account names no currency: write a whole number."
    if not scale:
        return f"{currency} has no digits behind the point."
    return f"{currency} has {scale} digits behind the point."
