"""Encrypt the payloads of tenants that have turned encryption on, before they are written."""

from collections.abc import Collection, Sequence
from uuid import UUID

import msgspec
from msgspec import UNSET

from postdate.core import any_json
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.intake.idempotency import canonical as canonical_request
from postdate.job.accept import validation
from postdate.job.spec.job import JobSpec
from postdate.job.store.job import NewJob
from postdate.schedule.spec.schedule import Template
from postdate.schedule.spec.spec import ScheduleSpec
from postdate.schedule.store import encrypted_template
from postdate.secret.payload_encryption import MARK, PayloadCipher


class PayloadEncryption:
    """Encrypts payloads of tenants that have turned encryption on; does nothing for others."""

    def __init__(self, settings: Settings, cipher: PayloadCipher | None) -> None:
        self._settings = settings
        self._cipher = cipher

    def is_enabled(self, tenant_id: int) -> bool:
        """Return whether a tenant's payloads are encrypted from now on."""
        return self._cipher is not None and self._settings.get("job.encryption", tenant_id) == "on"

    async def prepare_keys(self, database: Database, tenant_ids: Collection[int]) -> None:
        """Load the keys that requests of these tenants need, in a transaction if there are any."""
        if any(self.is_enabled(tenant_id) for tenant_id in tenant_ids):
            async with database.write() as connection:
                await self.prepare(connection, tenant_ids)

    async def prepare(self, connection: Connection, tenant_ids: Collection[int]) -> None:
        """Load the keys that payloads of these tenants need."""
        wanted = [tenant_id for tenant_id in tenant_ids if self.is_enabled(tenant_id)]
        if wanted and self._cipher is not None:
            await self._cipher.prepare(connection, wanted)

    def jobs(self, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
        """Encrypt the payloads of new jobs, if their tenants have turned encryption on."""
        wanted = {each for each in {job.tenant_id for job in jobs} if self.is_enabled(each)}
        if not wanted:
            return jobs
        return [self._job(job) if job.tenant_id in wanted else job for job in jobs]

    def _job(self, job: NewJob) -> NewJob:
        sealed = self.payload(job.tenant_id, job.job_id, job.payload)
        return job if sealed is job.payload else msgspec.structs.replace(job, payload=sealed)

    def payload(self, tenant_id: int, job_id: UUID, payload: bytes | None) -> bytes | None:
        """Encrypt one payload, if its tenant has turned encryption on."""
        if payload is None or self._cipher is None or not self.is_enabled(tenant_id):
            return payload
        return self._cipher.encrypt(tenant_id, job_id, payload)

    async def open(
        self, connection: Connection, tenant_id: int, job_id: UUID, payload: bytes | None
    ) -> bytes | None:
        """Return a stored payload, decrypted."""
        if payload is None or self._cipher is None or not payload.startswith(MARK):
            return payload
        return await self._cipher.decrypt(connection, tenant_id, job_id, payload)

    def template(self, tenant_id: int, schedule_id: UUID, template: Template) -> Template:
        """Encrypt the payload of a schedule's template, if its tenant has turned encryption on."""
        if self._cipher is None or not self.is_enabled(tenant_id):
            return template
        return encrypted_template.encrypt(self._cipher, tenant_id, schedule_id, template)

    async def open_template(
        self, connection: Connection, tenant_id: int, schedule_id: UUID, template: Template
    ) -> Template:
        """Return a stored template, decrypted."""
        return await encrypted_template.decrypt(
            self._cipher, connection, tenant_id, schedule_id, template
        )

    def answered(self, tenant_id: int, template: Template) -> Template:
        """Return a template as a stored answer may show it: without a payload that is encrypted."""
        return (
            encrypted_template.without_payload(template) if self.is_enabled(tenant_id) else template
        )

    def canonical_schedule(self, tenant_id: int, spec: ScheduleSpec) -> bytes:
        """Encode a schedule for comparison; an encrypted payload is named by a keyed hash."""
        if self._cipher is None or not self.is_enabled(tenant_id):
            return canonical_request(spec)
        bare = encrypted_template.without_payload(spec.template)
        members = any_json.decode(canonical_request(msgspec.structs.replace(spec, template=bare)))
        payload = encrypted_template.payload_of(spec.template)
        if payload is not None:
            members["template"]["job"]["payload"] = {
                "hmac": self._cipher.digest(tenant_id, payload)
            }
        return msgspec.json.encode(members, order="sorted")

    def canonical(self, tenant_id: int, spec: JobSpec) -> bytes:
        """Encode a job for comparison; an encrypted payload is named by a keyed hash."""
        if self._cipher is None or not self.is_enabled(tenant_id):
            return validation.canonical(spec)
        plain = msgspec.structs.replace(spec, payload=UNSET, payload_base64=None)
        members = any_json.decode(validation.canonical(plain))
        given = validation.payload_of(spec)
        if isinstance(given, tuple) and given[0] is not None:
            members["payload"] = {"hmac": self._cipher.digest(tenant_id, given[0])}
        return msgspec.json.encode(members, order="sorted")
