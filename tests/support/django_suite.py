"""Run Django's own tests of task backends with Postdate behind them: `django_suite.py FOLDER`.

The folder has the tests of an sdist of Django. Its two backends are replaced before the tests are
imported: one enqueues alone, the other also runs what it enqueued, on a worker.
"""

import sys
import unittest
from typing import Any

import django
import msgspec
from django.conf import settings

NOT_OURS = {
    "ImmediateBackendTestCase": {
        "test_cannot_get_result": "results can be read",
        "test_cannot_refresh_result": "results can be read",
        "test_cannot_pass_run_after": "run_after is supported",
        "test_throws_keyboard_interrupt": "the caller does not run the task",
    },
    "DummyBackendTestCase": {
        "test_refresh_result": "it changes what the dummy keeps in memory",
        "test_refresh_result_async": "it changes what the dummy keeps in memory",
        "test_clear": "the server forgets nothing",
    },
}


def replace_backends() -> None:
    """Put Postdate in the place of the backends that the tests name."""
    from django.tasks.backends import dummy, immediate

    from postdate.client.portal import Portal
    from postdate.django.backend import PostdateBackend
    from postdate.django.worker import make_worker

    class Enqueueing(PostdateBackend):
        def __init__(self, alias: str, params: dict[str, Any]) -> None:
            super().__init__(alias, params)
            self.settings = msgspec.structs.replace(self.settings, retry=0)
            self.results: list[Any] = []

        def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
            result = super().enqueue(task, args, kwargs)
            self.results.append(result)
            return result

        def clear(self) -> None:
            self.results.clear()

    class Running(Enqueueing):
        def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
            result = super().enqueue(task, args, kwargs)
            portal = Portal()
            try:
                portal.run(make_worker(self, [task.queue_name]).drain())
            finally:
                portal.close()
            result.refresh()
            return result

    dummy.DummyBackend = Enqueueing
    immediate.ImmediateBackend = Running


def wanted(suite: unittest.TestSuite) -> unittest.TestSuite:
    """Leave out what is about the replaced backends alone."""
    found = unittest.TestSuite()
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            found.addTest(wanted(each))
        elif each.id().rpartition(".")[2] not in NOT_OURS.get(type(each).__name__, ()):
            found.addTest(each)
    return found


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        USE_TZ=True,
    )
    django.setup()
    replace_backends()
    names = ["test_immediate_backend", "test_dummy_backend", "test_tasks", "test_custom_backend"]
    suite = unittest.defaultTestLoader.loadTestsFromNames([f"tasks.{name}" for name in names])
    ended = unittest.TextTestRunner(verbosity=2).run(wanted(suite))
    sys.exit(0 if ended.wasSuccessful() and ended.testsRun else 1)


if __name__ == "__main__":
    main()
