"""A schedule by its name, wherever its id is asked for."""

from uuid import UUID

from postdate.cli.output import UsageError
from postdate.cli.remote import connected
from postdate.words.error import Code, refuse


def schedule_id_of(text: str) -> str:
    """Return the id of a schedule; a name that several have is refused."""
    try:
        return str(UUID(text))
    except ValueError:
        pass
    with connected() as client:
        listed = client.schedules.list_page(name=text, limit=100).schedules
    found = [each.schedule_id for each in listed]
    if not found:
        raise refuse(Code.NOT_FOUND, f"There is no schedule {text}.", "schedule_id")
    if len(found) > 1:
        raise UsageError(f"{len(found)} schedules are called {text}: give the id of one")
    return found[0]
