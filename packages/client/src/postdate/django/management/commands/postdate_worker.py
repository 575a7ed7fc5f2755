"""`manage.py postdate_worker`: run the tasks that were enqueued."""

import logging
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from postdate.client.errors import ConfigurationError
from postdate.django.backend import PostdateBackend
from postdate.django.standard import task_backends
from postdate.django.worker import make_worker


class Command(BaseCommand):  # type: ignore[misc] # Django has no types
    """Run tasks until SIGTERM or SIGINT, then finish what is under way."""

    help = "Run tasks until SIGTERM or SIGINT, then finish what is under way."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--backend", default="default", help="Its name in TASKS.")
        parser.add_argument(
            "--queue", action="append", help="Serve this queue only; may be repeated."
        )
        parser.add_argument(
            "--concurrency", type=int, default=10, help="How many tasks of a queue run at once."
        )
        parser.add_argument(
            "--lease-seconds", type=float, default=30.0, help="How soon another worker takes over."
        )

    def handle(self, **options: Any) -> None:
        """Run until a signal comes."""
        level = logging.INFO if options["verbosity"] else logging.WARNING
        logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s")
        backend = _backend(options["backend"])
        try:
            worker = make_worker(
                backend,
                _queues(backend, options["queue"]),
                concurrency=options["concurrency"],
                lease_seconds=options["lease_seconds"],
            )
        except (ConfigurationError, ValueError) as error:
            raise CommandError(str(error)) from error
        worker.run_forever()


def _backend(alias: str) -> PostdateBackend:
    if alias not in task_backends.settings:
        raise CommandError(f"TASKS has no backend {alias!r}")
    backend = task_backends[alias]
    if not isinstance(backend, PostdateBackend):
        kind = f"{type(backend).__module__}.{type(backend).__qualname__}"
        raise CommandError(f"the backend {alias!r} is {kind}, whose tasks need another worker")
    return backend


def _queues(backend: PostdateBackend, asked: list[str] | None) -> list[str]:
    unknown = sorted(set(asked or ()) - backend.queues) if backend.queues else []
    if unknown:
        raise CommandError(f"the backend {backend.alias!r} has no queue {', '.join(unknown)}")
    if not asked and not backend.queues:
        raise CommandError("every queue is allowed: say which to serve, with --queue")
    return sorted(set(asked or backend.queues))
