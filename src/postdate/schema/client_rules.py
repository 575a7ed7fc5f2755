"""What Python declares and SQL checks: `migrate` writes it into tables that SQL reads.

A job or a payment that a client asks for in its own transaction is checked by `client_check`
(database/functions/client_check.sql) against the JSON Schema of its struct; a limit comes from the
table of settings. Neither has a second text. The statements count as a file of functions: they are
applied when they have changed, remembered, and left alone by an older release.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from iso4217 import Currency

from postdate.core.field import NAME, NAME_RULE
from postdate.core.money import digits_of
from postdate.core.setting.table import SETTINGS
from postdate.job.spec.job import (
    LARGE_METADATA,
    LARGE_PAYLOAD,
    METADATA_BYTES,
    PAYLOAD_BYTES,
    JobSpec,
)
from postdate.payment.spec.payment import PaymentOrder

Schema = dict[str, Any]

_KEYWORDS: Final = frozenset({
    "type", "enum", "format", "pattern", "minLength", "maxLength", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "required", "additionalProperties",
})  # fmt: skip
"""What `client_check` reads as it stands; titles, texts and defaults are for people."""


def job_schema() -> Schema:
    """Return the schema of a job, with the rules of `intake.job.validation` about one field."""
    found = flat_schema(JobSpec)
    fields = found["properties"]
    fields["lane"] |= {"pattern": f"^{NAME.pattern}$", "errorMessage": NAME_RULE}
    fields["metadata"] |= {"maxBytes": METADATA_BYTES, "errorMessage": LARGE_METADATA}
    fields["payload"] |= {"maxBytes": PAYLOAD_BYTES, "errorMessage": LARGE_PAYLOAD}
    return found


def payment_schema() -> Schema:
    """Return the schema of a payment order."""
    return flat_schema(PaymentOrder)


def flat_schema(shape: type[msgspec.Struct]) -> Schema:
    """Return the JSON Schema of a struct in the form that `client_check` reads.

    References are replaced by what they name. A union is one node with several types: a keyword
    applies to values of its own type, so the branches of our unions, which differ in type, can
    share a node. Only structs of one union differ by a tag; each stays apart, under its tag.
    """
    schema = msgspec.json.schema(shape)
    return _flat(schema, schema["$defs"])


def _flat(node: Mapping[str, Any], named: Mapping[str, Any]) -> Schema:
    if "$ref" in node:
        return _flat(named[node["$ref"].rpartition("/")[2]], named)
    found: Schema = {key: value for key, value in node.items() if key in _KEYWORDS}
    if "enum" in node:
        found["type"] = "string"
    if "properties" in node:
        found["properties"] = {k: _flat(v, named) for k, v in node["properties"].items()}
    if "discriminator" in node:
        tag, mapping = node["discriminator"]["propertyName"], node["discriminator"]["mapping"]
        kinds = {name: _flat({"$ref": target}, named) for name, target in mapping.items()}
        found |= {"type": "object", "tag": tag, "tags": list(kinds), "kinds": kinds}
    elif "anyOf" in node:
        found |= _merged([_flat(branch, named) for branch in node["anyOf"]])
    return found


def _merged(branches: list[Schema]) -> Schema:
    types = [branch["type"] for branch in branches]
    if len(set(types)) < len(types):
        raise ValueError(f"two branches of a union have one type: {types}")
    found: Schema = {}
    for branch in branches:
        found |= branch
    return found | {"type": types}


def schemas() -> dict[str, Schema]:
    """Return the schemas by their nouns, and the digits of the currencies."""
    return {"job": job_schema(), "payment": payment_schema(), "currency": currencies()}


def currencies() -> Schema:
    """Return how many digits of each currency stand behind the point."""
    return {each.code: digits_of(each.code) for each in Currency}


def settings() -> dict[str, list[Any]]:
    """Return default, what a tenant may, choices, and whether 0 is no limit, by the name."""
    return {
        name: [each.default, each.tenant_may.value, list(each.choices), each.zero_is_none]
        for name, each in SETTINGS.items()
    }


def rules() -> dict[str, Any]:
    """Return all rules by their names, as the tables must hold them."""
    return schemas() | settings()


def rules_sql() -> str:
    """Write the statements that replace what the tables hold."""
    return f"""\
DELETE FROM client_schema;
INSERT INTO client_schema (noun, schema)
SELECT key, value FROM jsonb_each({_quoted(schemas())});
DELETE FROM setting_default;
INSERT INTO setting_default (name, value, tenant_may, choices, zero_is_none)
SELECT key, rule -> 0, rule ->> 1, ARRAY(SELECT jsonb_array_elements_text(rule -> 2)),
       (rule -> 3)::boolean FROM jsonb_each({_quoted(settings())}) AS each (key, rule);
"""  # noqa: S608 - all of it is ours


def _quoted(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    if "$json$" in text:
        raise ValueError("a rule contains the mark that ends it")
    return f"$json${text}$json$::jsonb"
