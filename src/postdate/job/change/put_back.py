"""Put back the lost timers of jobs, each with an event that says so."""

from postdate.audit.spec import CLI
from postdate.database.connection.database import Database
from postdate.event.store.event import record_event
from postdate.timer import lost_timer
from postdate.timer.lost_timer import LostTimer


async def put_back_job(database: Database, lost: LostTimer) -> None:
    """Put the timer of a job back, due when it was, or now."""
    async with database.write("job.put_back") as connection:
        data = {"due_at": await lost_timer.put_back(connection, lost)}
        about = lost.tenant_id, lost.subject
        await record_event(connection, about, "job.repaired", CLI, data)
