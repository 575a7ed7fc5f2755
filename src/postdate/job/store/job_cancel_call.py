"""Calls to the cancel URLs of running jobs: taken for some seconds, then noted as done."""

from uuid import UUID

from postdate.core.ids import bucket_of
from postdate.database.connection.query import Connection, Reader, fetch_one, query
from postdate.job.spec.cancel_call import CancelCall
from postdate.job.spec.job import Webhook, decode_destination


async def due(reader: Reader, limit: int) -> list[UUID]:
    """Find the jobs whose cancel URLs are to be called now."""
    return [job_id for _, job_id in await reader.fetch(query("job_cancel_calls"), limit)]


async def take(connection: Connection, job_id: UUID, seconds: float) -> CancelCall | None:
    """Take a call, unless another node has taken it."""
    where = bucket_of(job_id), job_id
    return await fetch_one(connection, CancelCall, "job_cancel_call_take", *where, seconds)


async def destination_of(connection: Connection, call: CancelCall) -> Webhook | None:
    """Return the destination of a job that is still run; None if it has ended."""
    where = bucket_of(call.job_id), call.tenant_id, call.job_id
    text = await connection.fetchval(query("job_cancel_call_of"), *where)
    found = None if text is None else decode_destination(text)
    return found if isinstance(found, Webhook) else None


async def finish(connection: Connection, call: CancelCall) -> None:
    """Note that the receiver has heard of the cancel, or need not."""
    where = bucket_of(call.job_id), call.job_id, call.taken_until
    await connection.execute(query("job_cancel_call_done"), *where)
