"""Put back the lost timers of jobs, each with an event that says so."""

from postdate.model.event.audit import CLI
from postdate.store.connection.database import Database
from postdate.store.event.event import record_event
from postdate.store.timer import lost_timer
from postdate.store.timer.lost_timer import LostTimer


async def put_back_job(database: Database, lost: LostTimer) -> None:
    """Put the timer of a job back, due when it was, or now."""
    async with database.write("job.put_back") as connection:
        data = {"due_at": await lost_timer.put_back(connection, lost)}
        about = lost.tenant_id, lost.subject
        await record_event(connection, about, "job.repaired", CLI, data)
