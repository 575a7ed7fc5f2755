"""The command `postdate`."""

import sys
from pathlib import Path
from typing import Final, Literal, NoReturn

import cyclopts
import uvloop

from postdate.cli import (
    audit,
    bench,
    events,
    history,
    lane_remote,
    log,
    operator,
    output,
    prove,
    remote,
    restore,
    schedule_remote,
    secret,
    settlement,
    tenant,
    top,
    trace,
    watch,
)
from postdate.cli.settings import load
from postdate.model.errors import RefusedError, StartError

FAILED: Final = 1
USAGE: Final = 2

app = cyclopts.App(
    name="postdate",
    help="Anything, later, exactly once: a durable scheduler that can also move money.",
    version_flags=["--version"],
)
operator.register(app)
tenant.register(app)
settlement.register(app)
secret.register(app)
events.register(app)
bench.register(app)
remote.register(app)
schedule_remote.register(app)
lane_remote.register(app)
top.register(app)
restore.register(app)
audit.register(app)
prove.register(app)
history.register(app)


@app.command
def serve(
    *,
    role: Literal["api", "worker", "settlement", "publisher"] | None = None,
    host: str | None = None,
    port: int | None = None,
    data_dir: Path | None = None,
    log_level: str | None = None,
    log_format: str | None = None,
) -> None:
    """Run the server: all roles in one process, or one of them.

    Parameters
    ----------
    role
        Run only this role; without it, all of them.
    host
        Address to listen on (POSTDATE_HOST).
    port
        Port to listen on (POSTDATE_PORT).
    data_dir
        Directory of the embedded database (POSTDATE_DATA_DIR).
    log_level
        debug, info, warning or error (POSTDATE_LOG_LEVEL).
    log_format
        console, json or auto (POSTDATE_LOG_FORMAT).

    """
    from postdate.cli.serve import serve as run_server

    settings = load(
        {
            "host": host,
            "port": port,
            "data_dir": data_dir,
            "log_level": log_level,
            "log_format": log_format,
        }
    )
    tracing = trace.configure()
    more = [trace.add_trace] if tracing else []
    log.configure(settings.log_level, settings.log_format, *more)
    uvloop.run(run_server(settings, role, tracing))


def main() -> None:
    """Run a command; a refusal is one sentence on standard error and an exit code."""
    try:
        words = watch.take(output.take_format(sys.argv[1:]))
    except ValueError as error:
        _fail(str(error), USAGE)
    try:
        watch.run(app, words)
    except StartError as error:
        _fail(str(error))
    except RefusedError as error:
        refusal = error.refusal
        _fail(f"{refusal.detail} [{refusal.code}]", remote.EXITS.get(refusal.status, FAILED))
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(sentence: str, code: int = FAILED) -> NoReturn:
    print(f"postdate: {sentence}", file=sys.stderr)
    sys.exit(code)
