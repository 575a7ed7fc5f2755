"""Groups of options that several commands share: destination, retry, content, rule."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from postdate.cli.choice import Backoff, OnUnknown, Overlap, Roll
from postdate.cli.output import UsageError
from postdate.cli.remote import DestinationName, parse, without_none


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """Where a job goes: a URL, a named destination, or else the workers of its lane."""

    url: Annotated[str | None, Parameter(help="Call this webhook.")] = None
    destination: Annotated[
        DestinationName | None, Parameter(help="Call the webhook of this name.")
    ] = None
    queue: Annotated[DestinationName | None, Parameter(help="Put it on this queue.")] = None
    subject: Annotated[str | None, Parameter(help="The subject on a queue.")] = None

    def body(self) -> dict[str, Any]:
        """Return the fields of the request."""
        if sum(each is not None for each in (self.url, self.destination, self.queue)) > 1:
            raise UsageError("give one of --url, --destination and --queue")
        more = without_none(subject=self.subject)
        if self.url:
            return {"type": "webhook", "url": self.url, **more}
        if self.destination:
            return {"type": "webhook", "name": self.destination, **more}
        if self.queue:
            return {"type": "queue", "name": self.queue, **more}
        if self.subject:
            raise UsageError("--subject belongs to --queue or --destination")
        return {"type": "worker"}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RetryOptions:
    """How often and how soon a job is retried; absent values come from the settings."""

    max_attempts: Annotated[int | None, Parameter(help="Including the first.")] = None
    backoff: Annotated[Backoff | None, Parameter(help="How the delays grow.")] = None
    initial_seconds: Annotated[float | None, Parameter(help="The first delay.")] = None
    max_seconds: Annotated[float | None, Parameter(help="The longest delay.")] = None
    jitter: Annotated[float | None, Parameter(help="Random part of a delay, 0 to 1.")] = None
    max_age_seconds: Annotated[float | None, Parameter(help="Give up after this long.")] = None
    on_unknown: Annotated[OnUnknown | None, Parameter(help="If the outcome is unknown.")] = None

    def body(self) -> dict[str, Any] | None:
        """Return the fields of the request."""
        return without_none(**asdict(self)) or None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ContentOptions:
    """What a job carries."""

    payload: Annotated[str | None, Parameter(help="What is delivered, as JSON.")] = None
    payload_base64: Annotated[str | None, Parameter(help="The payload as opaque bytes.")] = None
    content_type: Annotated[str | None, Parameter(help="Content type of opaque bytes.")] = None
    payload_ref: Annotated[str | None, Parameter(help="Where the payload is kept.")] = None
    metadata: Annotated[str | None, Parameter(help="Your own data, as a JSON object.")] = None
    description: Annotated[str | None, Parameter(help="What it is for.")] = None

    def body(self) -> dict[str, Any]:
        """Return the fields of the request."""
        read = {"payload": parse(self.payload), "metadata": parse(self.metadata)}
        return without_none(**{**asdict(self), **read})


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RuleOptions:
    """When a schedule runs, and by which policies."""

    cron: Annotated[str | None, Parameter(help='Such as "30 2 * * *".')] = None
    rrule: Annotated[str | None, Parameter(help="A rule of RFC 5545.")] = None
    every_seconds: Annotated[int | None, Parameter(help="An interval.")] = None
    timezone: Annotated[str | None, Parameter(help="Time zone of the rule.")] = None
    start_at: Annotated[str | None, Parameter(help="Such as 2030-01-01T00:00:00Z.")] = None
    end_at: Annotated[str | None, Parameter(help="Such as 2031-01-01T00:00:00Z.")] = None
    max_runs: Annotated[int | None, Parameter(help="End after this many runs.")] = None
    calendar: Annotated[str | None, Parameter(help="The name of a business calendar.")] = None
    roll: Annotated[Roll | None, Parameter(help="What happens on a closed day.")] = None
    overlap: Annotated[Overlap | None, Parameter(help="If the previous run is still open.")] = None
    jitter_seconds: Annotated[int | None, Parameter(help="Spread the occurrences.")] = None

    def body(self) -> dict[str, Any]:
        """Return the fields of the request."""
        found = without_none(**asdict(self))
        if len({"cron", "rrule", "every_seconds"} & set(found)) > 1:
            raise UsageError("give one of --cron, --rrule and --every-seconds")
        return found


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PaymentOptions:
    """The payment that each occurrence makes."""

    from_account: Annotated[str | None, Parameter(help="Who pays.")] = None
    to_account: Annotated[str | None, Parameter(help="Who is paid.")] = None
    amount: Annotated[int | None, Parameter(help="How much, in the smallest unit.")] = None

    def body(self) -> dict[str, Any] | None:
        """Return the fields of the request; None when there is no payment."""
        found = without_none(
            from_account_id=self.from_account, to_account_id=self.to_account, amount=self.amount
        )
        if found and len(found) < len(asdict(self)):
            raise UsageError("a payment needs --from-account, --to-account and --amount")
        return found or None
