from datetime import timedelta

from postdate.core.ids import new_id
from postdate.database.connection import clock
from postdate.database.connection.database import Database
from postdate.job.spec.job import Webhook, decode_destination, encode_destination
from postdate.job.store import job as job_store
from postdate.job.store.job import JobKey, LoadedJob, NewJob

HOOK = Webhook(url="https://example.com/hook")


async def test_a_job_is_loaded_as_it_was_inserted(database: Database, tenant_id: int) -> None:
    job_id = new_id(9, database.unix_ms())
    async with database.write() as connection:
        now = await clock.now(connection)
        job = NewJob(
            job_id=job_id,
            tenant_id=tenant_id,
            lane_id=16,
            due_at=now,
            effective_at=now + timedelta(seconds=3),
            expires_at=None,
            destination=encode_destination(HOOK),
            policy=None,
            payload=b'{"a":1}',
            content_type="application/json",
            payload_ref=None,
        )
        await job_store.accept(connection, [job], now)
        assert await connection.fetchval("SELECT bucket_of($1)", job_id) == 9
        found = await job_store.load(connection, [JobKey(9, tenant_id, job_id)])
        missing = await job_store.load(connection, [JobKey(9, tenant_id + 1, job_id)])
        asked = await job_store.as_accepted(connection, tenant_id, job_id)
    assert found == {job_id: LoadedJob(job_id, now + timedelta(seconds=3), None, None)}
    assert missing == {}
    assert asked is not None
    assert (decode_destination(asked.destination), asked.payload) == (HOOK, b'{"a":1}')
