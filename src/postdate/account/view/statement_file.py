"""A statement as JSON, as CSV for spreadsheets, and as camt.053 for accounting systems.

Each is written while the entries are read: a head, the entries, an end. What lacks its end was cut
off. camt.053.001.14 is ISO 20022's Bank To Customer Statement.
"""

import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, Literal, Protocol
from xml.sax.saxutils import escape

import msgspec

from postdate.account.view.statement import (
    EntryFilter,
    StatementEntry,
    StatementPeriod,
    StatementTotals,
    StatementViews,
)
from postdate.core.csv_text import MoneyCell, csv_line
from postdate.core.identity import Identity
from postdate.core.ids import new_id
from postdate.core.money import money_number
from postdate.words.error import Code, refuse

CAMT: Final = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.14"
StatementFormat = Literal["json", "csv", "camt.053"]
MEDIA_TYPES: Final[dict[StatementFormat, str]] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "camt.053": "application/xml",
}
ENDINGS: Final[dict[StatementFormat, str]] = {"json": "json", "csv": "csv", "camt.053": "xml"}
MAX_ACCOUNT: Final = 34
"""Characters of an account in camt.053; a longer id is named by its hash, and whole as its name."""
REMITTANCE: Final = 140
"""Characters of one line of text in camt.053."""

COLUMNS: Final = (
    "time", "type", "counterparty", "description", "amount", "currency", "balance", "version",
    "payment_id", "transfer_id",
)  # fmt: skip
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class StatementWriter(Protocol):
    """Writes the three parts of a statement."""

    def head(self) -> str:
        """Write what comes before the entries."""

    def entries(self, found: Sequence[StatementEntry]) -> str:
        """Write some entries."""

    def end(self, totals: StatementTotals) -> str:
        """Write what comes after the entries."""


class JsonStatement:
    """Writes one JSON object."""

    def __init__(self, period: StatementPeriod) -> None:
        self._period = period
        self._begun = False

    def head(self) -> str:
        """Write the period, and begin the list of entries."""
        fields = {
            name: getattr(self._period, name)
            for name in (
                "account_id", "currency", "from_time", "to_time", "opening_balance",
                "closing_balance",
            )
        }  # fmt: skip
        return f'{msgspec.json.encode(fields).decode()[:-1]},"entries":['

    def entries(self, found: Sequence[StatementEntry]) -> str:
        """Write some entries."""
        if not found:
            return ""
        text = ",".join(msgspec.json.encode(each).decode() for each in found)
        before, self._begun = "," if self._begun else "", True
        return f"{before}{text}"

    def end(self, totals: StatementTotals) -> str:
        """Write the totals."""
        return f"],{msgspec.json.encode(totals).decode()[1:]}"


class CsvStatement:
    """Writes a table: an opening row, the entries, and a closing row."""

    def __init__(self, period: StatementPeriod) -> None:
        self._period = period

    def head(self) -> str:
        """Write the names of the columns, and where the account stood."""
        period = self._period
        return csv_line(COLUMNS) + self._bound("OPENING", period.from_time, period.opening_balance)

    def entries(self, found: Sequence[StatementEntry]) -> str:
        """Write some entries."""
        return "".join(map(self._entry, found))

    def end(self, _: StatementTotals) -> str:
        """Write where the account stands at the end."""
        return self._bound("CLOSING", self._period.to_time, self._period.closing_balance)

    def _bound(self, kind: str, at: datetime, balance: int) -> str:
        currency = self._period.currency
        return csv_line([at, kind, "", "", "", currency, MoneyCell(balance, currency), "", "", ""])

    def _entry(self, one: StatementEntry) -> str:
        currency = self._period.currency
        amount, balance = MoneyCell(one.amount, currency), MoneyCell(one.balance, currency)
        return csv_line([
            one.created_at, one.type, one.counterparty, one.description, amount, currency, balance,
            one.version, one.payment_id, one.transfer_id,
        ])  # fmt: skip


class CamtStatement:
    """Writes a camt.053 document: two balances, and one booked entry for each of ours."""

    def __init__(self, period: StatementPeriod) -> None:
        self._period = period
        self._currency = period.currency or ""

    def head(self) -> str:
        """Write the group header, the account and its balances."""
        period, made = self._period, _instant(self._period.made_at)
        identity = new_id(0, round(period.made_at.timestamp() * 1000)).hex
        net = period.closing_balance - period.opening_balance
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<Document xmlns="{CAMT}"><BkToCstmrStmt>'
            f"<GrpHdr><MsgId>{identity}</MsgId><CreDtTm>{made}</CreDtTm></GrpHdr>"
            f"<Stmt><Id>{identity}</Id><CreDtTm>{made}</CreDtTm>"
            f"<FrToDt><FrDtTm>{_instant(period.from_time)}</FrDtTm>"
            f"<ToDtTm>{_instant(period.to_time)}</ToDtTm></FrToDt>"
            f"<Acct>{_account(period.account_id)}<Ccy>{self._currency}</Ccy>"
            f"<Nm>{escape(period.account_id)}</Nm></Acct>"
            f"{self._balance('OPBD', period.opening_balance, period.from_time)}"
            f"{self._balance('CLBD', period.closing_balance, period.to_time)}"
            f"<TxsSummry><TtlNtries><NbOfNtries>{period.count}</NbOfNtries><TtlNetNtry>"
            f"<Amt>{money_number(abs(net), period.currency)}</Amt>{_direction(net)}"
            "</TtlNetNtry></TtlNtries></TxsSummry>\n"
        )

    def entries(self, found: Sequence[StatementEntry]) -> str:
        """Write some entries."""
        return "".join(map(self._entry, found))

    def end(self, _: StatementTotals) -> str:
        """Close what is open."""
        return "</Stmt></BkToCstmrStmt></Document>\n"

    def _balance(self, kind: str, balance: int, at: datetime) -> str:
        return (
            f"<Bal><Tp><CdOrPrtry><Cd>{kind}</Cd></CdOrPrtry></Tp>{self._amount(balance)}"
            f"<Dt><DtTm>{_instant(at)}</DtTm></Dt></Bal>"
        )

    def _amount(self, amount: int) -> str:
        number = money_number(abs(amount), self._currency)
        return f'<Amt Ccy="{self._currency}">{number}</Amt>{_direction(amount)}'

    def _entry(self, one: StatementEntry) -> str:
        at = f"<DtTm>{_instant(one.created_at)}</DtTm>"
        return (
            f"<Ntry><NtryRef>{one.version}</NtryRef>{self._amount(one.amount)}"
            f"<Sts><Cd>BOOK</Cd></Sts><BookgDt>{at}</BookgDt><ValDt>{at}</ValDt>"
            f"<AcctSvcrRef>{one.transfer_id.hex}</AcctSvcrRef>"
            f"<BkTxCd><Prtry><Cd>{one.type}</Cd><Issr>Postdate</Issr></Prtry></BkTxCd>"
            f"<NtryDtls><TxDtls>{_details(one)}</TxDtls></NtryDtls></Ntry>\n"
        )


def _details(one: StatementEntry) -> str:
    """Write the references, the other account and the text of an entry."""
    paid = f"<EndToEndId>{one.payment_id.hex}</EndToEndId>" if one.payment_id else ""
    refs = f"<Refs>{paid}<TxId>{one.transfer_id.hex}</TxId></Refs>"
    side = "CdtrAcct" if one.amount < 0 else "DbtrAcct"
    other = ""
    if one.counterparty is not None:
        name = f"<Nm>{escape(one.counterparty)}</Nm>"
        other = f"<RltdPties><{side}>{_account(one.counterparty)}{name}</{side}></RltdPties>"
    text = _NO_XML.sub("\N{REPLACEMENT CHARACTER}", one.description or "")
    pieces = [text[at : at + REMITTANCE] for at in range(0, len(text), REMITTANCE)]
    lines = "".join(f"<Ustrd>{escape(piece)}</Ustrd>" for piece in pieces)
    return f"{refs}{other}{f'<RmtInf>{lines}</RmtInf>' if lines else ''}"


def _account(account_id: str) -> str:
    if len(account_id) <= MAX_ACCOUNT:
        return f"<Id><Othr><Id>{escape(account_id)}</Id></Othr></Id>"
    named = sha256(account_id.encode()).hexdigest()[:MAX_ACCOUNT]
    scheme = "<SchmeNm><Prtry>first digits of SHA-256</Prtry></SchmeNm>"
    return f"<Id><Othr><Id>{named}</Id>{scheme}</Othr></Id>"


def _direction(amount: int) -> str:
    return f"<CdtDbtInd>{'DBIT' if amount < 0 else 'CRDT'}</CdtDbtInd>"


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def writer_of(
    wanted: StatementFormat, period: StatementPeriod, filters: EntryFilter
) -> StatementWriter:
    """Return what writes a format; camt.053 needs a currency, and is not filtered."""
    if wanted == "csv":
        return CsvStatement(period)
    if wanted == "json":
        return JsonStatement(period)
    if period.currency is None:
        detail = f"camt.053 needs a currency, and {period.account_id} names none."
        raise refuse(Code.INVALID_FIELD, detail, "format")
    for name in EntryFilter.__struct_fields__:
        if getattr(filters, name) is not None:
            detail = "A filtered camt.053 would not add up: leave the filter out, or take CSV."
            raise refuse(Code.INVALID_FIELD, detail, name)
    return CamtStatement(period)


async def statement_chunks(
    views: StatementViews,
    actor: Identity,
    period: StatementPeriod,
    filters: EntryFilter,
    writer: StatementWriter,
) -> AsyncIterator[bytes]:
    """Write a statement page by page while it is read."""
    totals = StatementTotals()
    yield writer.head().encode()
    async for found in views.entries(actor, period, filters):
        for each in found:
            totals.add(each.amount)
        yield writer.entries(found).encode()
    yield writer.end(totals).encode()


def file_name(period: StatementPeriod, wanted: StatementFormat) -> str:
    """Return what the file of a statement is called; an id has no character that needs quotes."""
    days = f"{period.from_time:%Y%m%d}-{period.to_time:%Y%m%d}"
    return f"{period.account_id}-{days}.{ENDINGS[wanted]}".replace(":", "_")
