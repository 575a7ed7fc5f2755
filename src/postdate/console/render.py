"""Render values as HTML: instants, amounts, statuses; and the template environment."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from postdate.core import any_json
from postdate.core.identity import Scope
from postdate.core.limit import limit_texts
from postdate.core.money import MONEY_FIELDS, money_text

NONE: Final = "\N{EN DASH}"

ICONS: Final[Mapping[str, str]] = {
    "PENDING": "◷",
    "READY": "▸",
    "RUNNING": "●",
    "EXECUTING": "‼",
    "COMPLETED": "✓",
    "FAILED": "✕",
    "LOST": "✕",
    "CANCELLED": "⊘",
    "UNKNOWN": "?",
    "PAUSED": "‖",
    "FROZEN": "‖",
    "CLOSED": "⊘",
    "OPEN": "✓",
    "DISABLED": "✕",
    "FAILING": "✕",
    "DEGRADED": "◐",
    "ACTIVE": "✓",
    "ENDED": "⊘",
    "RETRYING": "↻",
    "REVOKED": "⊘",
    "EXPIRED": "⊘",
    "ENDING": "‖",
    "WAITING": "◷",
    "DONE": "✓",
    "STOPPED": "⊘",
    "DRAFT": "✎",
    "APPLYING": "●",
    "APPLIED": "✓",
    "UNDOING": "●",
    "UNDONE": "⊘",
}
ACTOR_CHARS: Final = 20
"""Longer names of actors are ids of keys."""

MAX_FACT: Final = 80
"""Longer values are cut in a list; a click shows them whole."""

UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


_INSTANT: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)")
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ON: Final = Markup('<a class="{kind}" href="{link}">{words}</a>')
_PRESS: Final = Markup(
    '<form method="post" action="{link}"><input type="hidden" name="csrf" value="{csrf}">'
    '<input type="hidden" name="once" value="{once}"><button class="{kind}">{words}</button></form>'
)
_OFF: Final = Markup(
    '<span class="button off" title="Your key lacks the scope {scope}">{words} '
    "<small>needs {scope}</small></span>"
)
_QUOTED: Final = re.compile(r"`([^`]*)`")


class Offered(Protocol):
    """A button as pages offer it."""

    @property
    def words(self) -> str:
        """Return what it says."""

    @property
    def scope(self) -> object:
        """Return the scope that a key needs."""

    @property
    def danger(self) -> bool:
        """Return whether what it does cannot be taken back."""

    def address(self, **given: object) -> str:
        """Return the link to its form."""


def environment(
    buttons: Mapping[str, Offered],
    filters: Mapping[str, Callable[..., Any]],
    words: Mapping[str, Any],
) -> Environment:
    """Make the template environment: everything is escaped, nothing may be undefined.

    Besides what follows here, templates know the filters and the words of the nouns.
    """

    @pass_context
    def offer(page: Context, key: str, words: str = "", **given: object) -> Markup:
        """Offer a button by its key; one that the key may not press names the scope it lacks."""
        button = buttons[key]
        said, scope = words or f"{button.words}…", button.scope
        if isinstance(scope, Scope) and not page["allows"](scope):
            return _OFF.format(scope=scope, words=said)
        kind = "button danger" if button.danger else "button"
        return _ON.format(kind=kind, link=button.address(**given), words=said)

    @pass_context
    def press(page: Context, key: str, words: str, once: str, **given: object) -> Markup:
        """Offer a button that is pressed without a form that asks first."""
        button = buttons[key]
        kind = "danger" if button.danger else "primary"
        link = button.address(**given)
        return _PRESS.format(link=link, csrf=page["csrf"], once=once, kind=kind, words=words)

    made = Environment(
        loader=PackageLoader("postdate.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "marked": marked,
        "actor": actor,
        "amount": amount,
        "money": money,
        "badge": badge,
        "duration": duration,
        "facts": facts,
        "rate": rate,
        "seconds": seconds,
        "lateness": lateness,
        "limits": limit_texts,
        "plain": plain,
        "pretty": pretty,
        "short": short,
        **filters,
    }
    made.globals |= {"offer": offer, "press": press, **words}
    return made


def marked(sentence: str) -> Markup:
    """Write what stands between backticks as code."""
    return Markup(_QUOTED.sub(r"<code>\1</code>", str(escape(sentence))))  # noqa: S704 - escaped


def relative(seconds: float) -> str:
    """Return how far away an instant is."""
    size = abs(seconds)
    for unit, name in UNITS:
        if size >= unit:
            text = f"{size / unit:.0f} {name}" if size >= 10 * unit else f"{size / unit:.1f} {name}"
            return f"in {text}" if seconds > 0 else f"{text} ago"
    return "now"


def moment(when: datetime | None, now: datetime) -> Markup:
    """Show an instant relative and absolute, with the zone named."""
    if when is None:
        return Markup('<span class="none">{}</span>').format(NONE)
    utc = when.astimezone(UTC)
    stamp = utc.strftime("%Y-%m-%d %H:%M:%S")
    return Markup(
        '<time datetime="{}"><span class="relative">{}</span> '
        '<span class="absolute">{} UTC</span></time>'
    ).format(utc.isoformat(timespec="milliseconds"), relative((utc - now).total_seconds()), stamp)


def deadline(when: datetime, now: datetime) -> Markup:
    """Show a deadline: the day of the week and the time, then as any instant."""
    utc = when.astimezone(UTC)
    is_soon = when - now < timedelta(days=6)
    day = f"{utc:%A %H:%M}" if is_soon else f"{utc:%A} {utc.day} {utc:%B %H:%M}"
    said = Markup('<time datetime="{}"><strong class="weekday">{}</strong> ').format(
        utc.isoformat(timespec="milliseconds"), day
    )
    return said + Markup(
        '<span class="relative">{}</span> <span class="absolute">{} UTC</span></time>'
    ).format(relative((utc - now).total_seconds()), utc.strftime("%Y-%m-%d %H:%M:%S"))


def badge(status: str) -> Markup:
    """Show a status as an icon and its word."""
    return Markup('<span class="badge {}"><span aria-hidden="true">{}</span> {}</span>').format(
        status.lower(), ICONS.get(status, "•"), status
    )


def amount(value: int | None) -> str:
    """Write an integer so that it can be read."""
    return NONE if value is None else f"{value:,}"


def money(value: int | None, currency: str | None) -> str:
    """Write an amount in units of its currency."""
    return NONE if value is None else money_text(value, currency)


def plain(value: object) -> str:
    """Write a setting's value: numbers so that they can be read, an empty text as a dash."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value) or NONE
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6f}".rstrip("0").rstrip(".")


def duration(milliseconds: int | None) -> str:
    """Write a duration in the unit that fits."""
    if milliseconds is None:
        return NONE
    size = abs(milliseconds)
    if size < 1000:  # noqa: PLR2004 - a second
        return f"{milliseconds} ms"
    for unit, name in UNITS:
        if size >= unit * 1000:
            return f"{milliseconds / 1000 / unit:.1f} {name}"
    return f"{milliseconds} ms"


def rate(per_second: float) -> str:
    """Write how many a second: few with a digit behind the point, many without."""
    if per_second >= 10:  # noqa: PLR2004 - two digits say enough
        return f"{per_second:,.0f}"
    return f"{per_second:.1f}" if per_second else "0"


def seconds(value: float | None) -> str:
    """Write seconds in the unit that fits."""
    return NONE if value is None else duration(round(value * 1000))


def lateness(milliseconds: int | None) -> str:
    """Write how late something began."""
    return NONE if milliseconds is None else f"{duration(milliseconds)} late"


def short(identifier: object) -> str:
    """Return the end of an id, where ids made at the same moment differ."""
    return "…" + str(identifier)[-12:]


def actor(name: str | None) -> str:
    """Return who did something: a key by the end of its id, everybody else by name."""
    if not name:
        return "system"
    return short(name) if len(name) > ACTOR_CHARS else name


def pretty(value: Any) -> str:
    """Write a value, or text that is JSON already, as indented JSON, every digit of it."""
    return any_json.indented(
        value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    )


def facts(data: Any, currency: str | Mapping[str, str] | None = None) -> Markup:
    """Write the members of an object as words: each name with its value, what is empty left out.

    Amounts are written in the currency, or in that of the account that the object names.
    """
    found = any_json.decode(data) if isinstance(data, str) else msgspec.to_builtins(data)
    if isinstance(currency, Mapping):
        currency = currency.get(account_named(found) or "")
    parts = [
        Markup('<span class="fact">{} <b title="{}">{}</b></span>').format(name, full, _brief(full))
        for name, full in _members(found, "", currency)
    ]
    return Markup(" ").join(parts)


def account_named(data: Any) -> str | None:
    """Return the account whose currency the amounts of an object are in."""
    if not isinstance(data, dict):
        return None
    named = (data.get(name) for name in ("from_account_id", "account_id", "from_account"))
    return next((name for name in named if isinstance(name, str)), None)


def _members(value: Any, name: str, currency: str | None) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        own = str(value.get("currency") or "") or currency
        return [each for part, inner in value.items() for each in _members(inner, part, own)]
    label = name.replace("_", " ").removesuffix(" id")
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        value = ", ".join(map(str, value))
    if value is None or value == "":
        return []
    if isinstance(value, bool):
        return [(label, "yes" if value else "no")]
    if isinstance(value, int):
        text = money_text(value, currency) if name in MONEY_FIELDS else amount(value)
        return [(label, text)]
    return [(label, str(value))]


def spoken(value: Any) -> str:
    """Write a value of an answer in a sentence: numbers and instants so that they can be read."""
    if isinstance(value, int) and not isinstance(value, bool):
        return amount(value)
    match = _INSTANT.fullmatch(str(value))
    return f"{match[1]} {match[2]} UTC" if match else str(value)


def _brief(text: str) -> str:
    """Write an instant with its zone, the end of an id, and the beginning of a long text."""
    if _ID.fullmatch(text):
        return short(text)
    text = spoken(text)
    return text if len(text) <= MAX_FACT else f"{text[: MAX_FACT - 1]}…"
