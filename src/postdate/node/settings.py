"""The server's settings: declared once, read from flags, environment and an optional TOML file."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from postdate.destination.spec.broker_url import kafka_brokers
from postdate.words.error import StartError

PREFIX: Final = "POSTDATE_"
TEST_PREFIX: Final = "POSTDATE_TEST_"
"""Names for the test-suite; the server does not read them and does not mind them."""

CONFIG: Final = "POSTDATE_CONFIG"
MAX_PORT: Final = 65535
MIN_WRITERS: Final = 2
"""One connection for a long statement, and one for all others."""

LOG_ITEMS: Final = ("accepted", "settled", "failed")


def _setting(default: Any, doc: str, *, secret: bool = False) -> Any:
    return field(default=default, metadata={"doc": doc, "secret": secret})


# ruff: noqa: RUF009 - `_setting` is `field` with its documentation; its defaults are immutable
@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """Everything that is fixed when a process starts. The environment has the prefix POSTDATE_."""

    host: str = _setting("127.0.0.1", "Address the HTTP server listens on.")
    port: int = _setting(8080, "Port the HTTP server listens on; 0 takes a free one.")
    data_dir: Path = _setting(
        Path(".postdate"), "Directory of the embedded PostgreSQL and of the first admin key."
    )
    database_url: str = _setting(
        "",
        "PostgreSQL to use instead of the embedded one; several hosts may be given, the writable "
        "one is found.",
        secret=True,
    )
    owner_database_url: str = _setting(
        "",
        "Login for migrations, when `database_url` may not act as the owner of the schema.",
        secret=True,
    )
    read_database_url: str = _setting(
        "",
        "Replica that serves lists and status, and keys while the primary is away; never a "
        "decision about money.",
        secret=True,
    )
    anchor: str = _setting(
        "",
        "File outside the database for the heads of the event chains; `anchor.jsonl` in the data "
        "directory if empty.",
    )
    admin_key: str = _setting(
        "", "First tenant's admin key; made and kept in the data directory if empty.", secret=True
    )
    api_key: str = _setting(
        "",
        "Key of the commands that call the server; the admin key, for its own server, if empty.",
        secret=True,
    )
    url: str = _setting(
        "",
        "Server that the commands call; if empty, the one that `client.json` in the data directory "
        "names, or else the one on `host` and `port`.",
    )
    jwt_issuer: str = _setting(
        "", "Issuer (`iss`) of signed tokens that are taken beside keys; empty takes none."
    )
    jwt_audience: str = _setting("", "Audience (`aud`) that those tokens must name.")
    jwt_jwks: str = _setting(
        "", "Where the issuer's public keys (JWKS) are: an https URL, or the path of a file."
    )
    internal_token: str = _setting(
        "", "Guards the internal route (`X-Internal-Auth`); empty closes it.", secret=True
    )
    secret_key: str = _setting(
        "",
        "Encrypts webhook secrets and queue settings: 32 bytes in hexadecimal or base64; several "
        "with commas, the first encrypts. Made and kept in the data directory if empty.",
        secret=True,
    )
    secret_key_file: str = _setting(
        "", "File with such keys, one a line, instead of `secret_key`.", secret=False
    )
    allow_private_targets: str = _setting(
        "", "Comma-separated private networks that outgoing calls may reach, e.g. 127.0.0.0/8."
    )
    kafka_brokers: str = _setting(
        "",
        "Comma-separated Kafka brokers (`host` or `host:port`) that tenants may use, and that are "
        "trusted in what they advertise; empty: none.",
    )
    trusted_proxies: str = _setting(
        "",
        "Comma-separated networks of proxies in front of the server: their `X-Forwarded-For` is "
        "believed, and they may open any number of connections.",
    )
    connections: int = _setting(
        4096,
        "Maximum number of open connections; above three quarters of it, those idle for longest "
        "are closed.",
    )
    connections_per_address: int = _setting(
        1024,
        "Maximum number of connections of one address; beyond it, the longest idle are closed.",
    )
    open_per_key: int = _setting(
        256,
        "Maximum number of event streams and long polls of one key in this process, and as many "
        "requests whose body is still on its way.",
    )
    open_per_tenant: int = _setting(512, "Open requests of one tenant at a time.")
    open_per_address: int = _setting(512, "Open requests of one address at a time.")
    metrics_port: int = _setting(
        0,
        "Port of /healthz, /readyz and /metrics in a process without the role api, on `host`, and "
        "beside it where several processes share the port; 0 opens none.",
    )
    api_processes: int = _setting(
        1,
        "Processes that answer the API on one port; they share `writers`, `readers` and "
        "`connections`. Each also answers alone, on `metrics_port` and the ports after it.",
    )
    node_name: str = _setting("", "Name shown for this node; the host's name if empty.")
    writers: int = _setting(8, "Maximum number of database connections for writing.")
    readers: int = _setting(8, "Maximum number of database connections for reading.")
    worker_window: int = _setting(1000, "Maximum number of jobs that this process runs at once.")
    drain_seconds: int = _setting(10, "How long requests under way may take when stopping.")
    drain_grace_seconds: int = _setting(
        0,
        "How long a node that is told to stop still answers, while `/readyz` says that it drains: "
        "as long as a balancer needs to notice.",
    )
    log_level: str = _setting("info", "debug, info, warning or error.")
    log_format: str = _setting("auto", "console, json, or auto: console on a terminal.")
    log_items: str = _setting(
        "",
        "Log lines for single jobs and payments, at `info`: a comma-separated choice of accepted, "
        "settled, failed; empty writes none.",
    )
    log_items_per_second: int = _setting(
        100,
        "Maximum number of such lines per second in this process; a line counts what is left out.",
    )


FIELDS: Final = {f.name: f for f in fields(ProcessSettings)}


def load(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> ProcessSettings:
    """Read the settings: a flag beats the environment, which beats the file."""
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    values |= _from_file(environ.get(CONFIG, ""))
    values |= _from_environment(environ)
    values |= {name: value for name, value in (flags or {}).items() if value is not None}
    settings = ProcessSettings(**{name: _convert(name, value) for name, value in values.items()})
    _validate(settings)
    return settings


def _from_file(path: str) -> dict[str, Any]:
    if not path:
        return {}
    try:
        found = tomllib.loads(Path(path).read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StartError(f"the settings file {path} cannot be read: {error}") from error
    for name in found:
        if name not in FIELDS:
            raise StartError(_unknown(f"{name} in {path}"))
    return found


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable.startswith(TEST_PREFIX):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if variable == CONFIG:
            continue
        if name not in FIELDS or variable != variable.upper():
            raise StartError(_unknown(variable))
        found[name] = value
    return found


def _unknown(name: str) -> str:
    known = ", ".join(PREFIX + n.upper() for n in FIELDS)
    return f"{name} is not a setting of postdate: remove it or correct it; known are {known}"


def _convert(name: str, value: Any) -> Any:
    default = FIELDS[name].default
    try:
        if isinstance(default, Path):
            return Path(value).expanduser()
        if isinstance(default, int):
            return int(value)
        return str(value)
    except (TypeError, ValueError) as error:
        raise StartError(f"{PREFIX}{name.upper()} must be a whole number, not {value!r}") from error


def _validate(settings: ProcessSettings) -> None:
    for name, allowed in (
        ("log_level", ("debug", "info", "warning", "error")),
        ("log_format", ("auto", "console", "json")),
    ):
        if getattr(settings, name) not in allowed:
            raise StartError(f"{PREFIX}{name.upper()} is one of {', '.join(allowed)}")
    for name, least, most in (
        ("port", 0, MAX_PORT),
        ("metrics_port", 0, MAX_PORT),
        ("api_processes", 1, 64),
        ("writers", MIN_WRITERS, 1000),
        ("readers", 1, 1000),
        ("worker_window", 1, 100_000),
        ("drain_seconds", 0, 3600),
        ("drain_grace_seconds", 0, 300),
        ("log_items_per_second", 1, 100_000),
        ("connections", 64, 1_000_000),
        ("connections_per_address", 1, 1_000_000),
        ("open_per_key", 1, 1_000_000),
        ("open_per_tenant", 1, 1_000_000),
        ("open_per_address", 1, 1_000_000),
    ):
        if not least <= getattr(settings, name) <= most:
            raise StartError(f"{PREFIX}{name.upper()} lies between {least} and {most}")
    if settings.api_processes > min(settings.writers // MIN_WRITERS, settings.readers):
        raise StartError(
            f"POSTDATE_API_PROCESSES={settings.api_processes} needs POSTDATE_WRITERS of at least "
            f"{settings.api_processes * MIN_WRITERS} and POSTDATE_READERS of at least "
            f"{settings.api_processes}: they are shared"
        )
    if unknown := set(split_list(settings.log_items)) - set(LOG_ITEMS):
        raise StartError(
            f"POSTDATE_LOG_ITEMS lists some of {', '.join(LOG_ITEMS)}, not {', '.join(unknown)}"
        )
    if settings.jwt_issuer and not (settings.jwt_audience and settings.jwt_jwks):
        raise StartError("POSTDATE_JWT_ISSUER needs POSTDATE_JWT_AUDIENCE and POSTDATE_JWT_JWKS")
    try:
        kafka_brokers(settings.kafka_brokers)
    except ValueError as error:
        raise StartError(f"POSTDATE_KAFKA_BROKERS lists hosts such as k1:9092: {error}") from error
    _validate_networks(settings)


def _validate_networks(settings: ProcessSettings) -> None:
    for name in ("allow_private_targets", "trusted_proxies"):
        for network in filter(None, getattr(settings, name).split(",")):
            try:
                ip_network(network.strip())
            except ValueError as error:
                raise StartError(
                    f"{PREFIX}{name.upper()} lists networks such as 10.0.0.0/8: {error}"
                ) from error


def split_list(value: str) -> list[str]:
    """Split a comma-separated setting."""
    return [each.strip() for each in value.split(",") if each.strip()]
