"""`postdate worker`: run the tasks of an application."""

import logging
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from postdate.cli.output import UsageError
from postdate.client import ConfigurationError
from postdate.task import Postdate
from postdate.words.error import StartError


def worker(
    application: Annotated[str, Parameter(help="Module and name: `shop.tasks:app`.")],
    *,
    concurrency: Annotated[int, Parameter(help="How many jobs of a lane run at once.")] = 10,
    lease_seconds: Annotated[float, Parameter(help="How soon another worker takes over.")] = 30.0,
) -> None:
    """Run the tasks of an application until SIGTERM or SIGINT, then finish what is under way."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    found = load_application(application)
    try:
        found.run_worker(concurrency=concurrency, lease_seconds=lease_seconds)
    except ConfigurationError as error:
        raise StartError(str(error)) from error


def load_application(path: str) -> Postdate:
    """Import an application from its module, which may be in the current directory."""
    module, _, name = path.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(import_module(module), name or "app")
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise UsageError(f"there is no module {error.name}: run it where that is found") from error
    except AttributeError as error:
        raise UsageError(f"{module} has no {name or 'app'}: write MODULE:NAME") from error
    if not isinstance(found, Postdate):
        raise UsageError(f"{path} is no application: `app = Postdate()` makes one")
    if not found.tasks:
        raise UsageError(f"{path} has no tasks: `@app.task()` declares one")
    return found
