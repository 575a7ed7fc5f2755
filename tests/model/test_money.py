"""Amounts as people read and write them: the digits of the currency, whatever the amount."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postdate.core.money import MAX_BALANCE, MoneyTextError, money_number, money_text, read_money

CURRENCIES = ("EUR", "JPY", "BHD", "CLF", "XAU", "ZZZ", None)
DIGITS = {"EUR": 2, "BHD": 3, "CLF": 4}
amounts = st.integers(-MAX_BALANCE, MAX_BALANCE)
currencies = st.sampled_from(CURRENCIES)


@pytest.mark.parametrize(
    ("amount", "currency", "text"),
    [
        (84683589, "EUR", "846,835.89 EUR"),
        (-5, "EUR", "-0.05 EUR"),
        (0, "EUR", "0.00 EUR"),
        (1250, "JPY", "1,250 JPY"),
        (1250, "BHD", "1.250 BHD"),
        (9_000_899_999_600_000, "EUR", "90,008,999,996,000.00 EUR"),
        (1250, "ZZZ", "1,250 ZZZ"),
        (1250, "XAU", "1,250 XAU"),
        (84683589, None, "84,683,589"),
    ],
)
def test_an_amount_is_written_in_units_with_the_digits_of_its_currency(
    amount: int, currency: str | None, text: str
) -> None:
    assert money_text(amount, currency) == text


@given(amounts, currencies)
def test_what_is_written_is_read_back(amount: int, currency: str | None) -> None:
    assert read_money(money_text(amount, currency), currency) == amount
    assert read_money(money_number(amount, currency), currency) == amount
    scaled = Decimal(amount) / Decimal(10) ** DIGITS.get(currency or "", 0)
    assert Decimal(money_number(amount, currency)) == scaled


@pytest.mark.parametrize(
    ("text", "currency", "amount"),
    [
        ("125.50 EUR", "EUR", 12550),
        ("EUR 125.5", "EUR", 12550),
        ("eur125", "EUR", 12500),
        (" 1,250.50 ", "EUR", 125050),
        ("1 250.50", "EUR", 125050),
        ("\N{MINUS SIGN}3", "EUR", -300),
        ("+3", "EUR", 300),
        ("1,250", "JPY", 1250),
        ("0.001", "BHD", 1),
        ("2500", None, 2500),
    ],
)
def test_amounts_are_read_as_people_write_them(
    text: str, currency: str | None, amount: int
) -> None:
    assert read_money(text, currency) == amount


@pytest.mark.parametrize(
    ("text", "currency", "says"),
    [
        ("125,50", "EUR", "such as 125.50 EUR"),
        ("1.250,50", "EUR", "such as 125.50 EUR"),
        ("12,50,00", "EUR", "such as 125.50 EUR"),
        ("", "EUR", "such as 125.50 EUR"),
        ("1e3", "EUR", "such as 125.50 EUR"),
        ("0x10", "EUR", "such as 125.50 EUR"),
        ("٣", "EUR", "such as 125.50 EUR"),
        ("EUR 5 EUR", "EUR", "such as 125.50 EUR"),
        ("9" * 65, "EUR", "such as 125.50 EUR"),
        ("much", None, "such as 12,550"),
        ("1.005", "EUR", "EUR has 2 digits behind the point"),
        ("1.5", "JPY", "JPY has no digits behind the point"),
        ("1.5", None, "names no currency: write a whole number"),
        ("5 USD", "EUR", "counts in EUR, not in USD"),
        ("5 USD", None, "names no currency: write the number alone"),
    ],
)
def test_what_is_no_amount_is_refused_in_words(text: str, currency: str | None, says: str) -> None:
    with pytest.raises(MoneyTextError, match=says.replace(".", r"\.")):
        read_money(text, currency)


@given(st.text(max_size=80), currencies)
def test_no_text_makes_it_fail_otherwise(text: str, currency: str | None) -> None:
    try:
        amount = read_money(text, currency)
    except MoneyTextError:
        return
    assert read_money(money_text(amount, currency), currency) == amount
