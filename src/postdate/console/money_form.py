"""Amounts of a form: typed and shown in units of the account's currency, sent in minor units."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from msgspec import structs

from postdate.console.form_body import WAS, Typed
from postdate.console.form_field import FormField
from postdate.console.page_request import PageRequest
from postdate.core.money import MoneyTextError, money_number, read_money
from postdate.words.error import Code, Refusal, refuse

CurrencyOf = Callable[[PageRequest, Typed], Awaitable[str | None]]
"""Finds the currency that the amounts of a form are in, from the path and what was typed."""

_PREFIXES: Final = ("", WAS)


def of_account(field: str) -> CurrencyOf:
    """Return how to find the currency of the account that a field or the path names."""

    async def find(request: PageRequest, typed: Typed) -> str | None:
        name = request.http.path_params.get(field) or typed.get(field, "").strip()
        found = await request.services.account.read.find(request.actor, name) if name else None
        if name and found is None:
            raise refuse(Code.UNKNOWN_ACCOUNT, f"There is no account {name}.", field)
        return None if found is None else found.currency

    return find


async def of_new_account(_: PageRequest, typed: Typed) -> str | None:
    """Return the currency that is typed into the form of a new account."""
    return typed.get("currency", "").strip() or None


async def of_payment(request: PageRequest, _: Typed) -> str | None:
    """Return the currency of the payment that the path names."""
    found = await request.services.payment.read.find(request.actor, request.uuid("payment_id"))
    return None if found is None else found.currency


class MinorUnits(NamedTuple):
    """What was typed with amounts as the API takes them, and why some cannot be read, by field."""

    typed: Typed
    wrong: dict[str, str]

    def explain(self, refusal: Refusal) -> Refusal:
        """Say in words what the API says of the types of amounts that cannot be read."""
        problems = [
            structs.replace(one, detail=self.wrong.get(one.field, one.detail))
            for one in refusal.extra.get("problems", ())
        ]
        detail = self.wrong.get(refusal.field or "", refusal.detail)
        extra = {**refusal.extra, "problems": problems} if problems else refusal.extra
        return structs.replace(refusal, detail=detail, extra=extra)


def to_minor(fields: Iterable[FormField], typed: Typed, currency: str | None) -> MinorUnits:
    """Read every amount as an integer of the minor unit; what cannot be read stays as it is."""
    found, wrong = dict(typed), {}
    for one in fields:
        for name in (f"{prefix}{one.name}" for prefix in _PREFIXES if one.money):
            try:
                if text := found.get(name, "").strip():
                    found[name] = str(read_money(text, currency))
            except MoneyTextError as error:
                wrong[one.name] = str(error)
    return MinorUnits(found, wrong)


def to_units(fields: Iterable[FormField], stored: Typed, currency: str | None) -> dict[str, str]:
    """Return what is stored with every amount in units, as an edit shows it."""
    found = dict(stored)
    for one in fields:
        for name in (f"{prefix}{one.name}" for prefix in _PREFIXES if one.money):
            if text := found.get(name):
                found[name] = money_number(int(text), currency)
    return found
