"""Where a job goes, in words."""

from postdate.job.spec.job import JobDestination, Queue, Webhook


def target(destination: JobDestination) -> str:
    """Return where a job goes."""
    match destination:
        case Webhook(url=url, name=name):
            return f"webhook {name or url}"
        case Queue(name=name):
            return f"queue {name}"
        case _:
            return "worker"


def kind(destination: JobDestination) -> str:
    """Return what sort of destination a job goes to."""
    return target(destination).partition(" ")[0]


def target_name(destination: JobDestination) -> str:
    """Return the name or the URL that a job goes to; a worker's lane says it all."""
    return target(destination).partition(" ")[2]
