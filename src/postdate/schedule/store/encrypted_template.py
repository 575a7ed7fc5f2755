"""Payloads in the templates of schedules: encrypted at rest as those of jobs are.

A template stays readable without its payload, so that a schedule can be decided, listed and audited
without a key. The encrypted payload stands in the place of the opaque one.
"""

from base64 import b64decode, b64encode
from typing import Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw

from postdate.database.connection.query import Reader
from postdate.schedule.spec.schedule import Template
from postdate.secret.payload_encryption import MARK, PayloadCipher
from postdate.secret.secret import SecretKeyMissingError

PREFIX: Final = b64encode(MARK[: len(MARK) // 3 * 3]).decode()
"""How a encrypted payload begins in base64; one that comes so is refused."""

_members: Final = msgspec.json.Decoder(dict[str, Raw])


def is_encrypted(template: Template) -> bool:
    """Return whether the payload of a template is encrypted."""
    job = template.job
    return job is not None and (job.payload_base64 or "").startswith(PREFIX)


def without_payload(template: Template) -> Template:
    """Return the template without its payload."""
    if template.job is None:
        return template
    job = msgspec.structs.replace(template.job, payload=UNSET, payload_base64=None)
    return msgspec.structs.replace(template, job=job)


def payload_of(template: Template) -> bytes | None:
    """Serialize the payload to be encrypted, with the name of its field."""
    job = template.job
    if job is None or (job.payload is UNSET and job.payload_base64 is None):
        return None
    opaque = job.payload is UNSET
    named = {"payload_base64": job.payload_base64} if opaque else {"payload": job.payload}
    return msgspec.json.encode(named)


def encrypt(
    cipher: PayloadCipher, tenant_id: int, schedule_id: UUID, template: Template
) -> Template:
    """Encrypt the payload of a template, bound to its schedule; the tenant's key is at hand."""
    payload = payload_of(template)
    if payload is None or template.job is None:
        return template
    closed = b64encode(cipher.encrypt(tenant_id, schedule_id, payload)).decode()
    job = msgspec.structs.replace(template.job, payload=UNSET, payload_base64=closed)
    return msgspec.structs.replace(template, job=job)


async def decrypt(
    cipher: PayloadCipher | None,
    connection: Reader,
    tenant_id: int,
    schedule_id: UUID,
    template: Template,
) -> Template:
    """Return a decrypted template; return an unencrypted one unchanged."""
    if template.job is None or not is_encrypted(template):
        return template
    if cipher is None:
        raise SecretKeyMissingError("A template is encrypted, and this process has no key.")
    closed = b64decode(template.job.payload_base64 or "")
    text = await cipher.decrypt(connection, tenant_id, schedule_id, closed)
    named = _members.decode(text or b"{}")
    payload = named.get("payload", UNSET)
    opaque = named.get("payload_base64")
    job = msgspec.structs.replace(
        template.job,
        payload=payload,
        payload_base64=None if opaque is None else msgspec.json.decode(opaque, type=str),
    )
    return msgspec.structs.replace(template, job=job)
