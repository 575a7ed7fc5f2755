"""The command `postdate`."""

import logging
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, Literal, NoReturn

import cyclopts

from postdate.cli import number, output, watch
from postdate.cli.command_table import HELP, command_modules
from postdate.node.settings import load, split_list
from postdate.words.error import RefusedError, StartError

FAILED: Final = 1
USAGE: Final = 2
COMPLETE: Final = "__complete"
"""How a shell asks what could follow; its words are no options of ours."""

app = cyclopts.App(
    name="postdate",
    help="Anything, later, exactly once: a durable scheduler that can also move money.",
    version_flags=["--version"],
    default_parameter=number.PARAMETER,
    help_epilogue=output.EVERYWHERE,
)
COMMANDS: Final = command_modules(lab=find_spec("postdate_lab") is not None)
for _name, _place in COMMANDS.items():
    app.command(_place, name=_name, help=HELP[_name])


@app.command
def serve(
    *,
    role: Literal["api", "worker", "settlement", "publisher"] | None = None,
    host: str | None = None,
    port: int | None = None,
    data_dir: Path | None = None,
    log_level: Literal["debug", "info", "warning", "error"] | None = None,
    log_format: Literal["console", "json", "auto"] | None = None,
    parent: Annotated[int | None, cyclopts.Parameter(show=False)] = None,
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
    parent
        The process that started this one beside itself (POSTDATE_API_PROCESSES).

    """
    from postdate.node import garbage

    garbage.postpone()
    import uvloop

    from postdate.monitor.store.item_log import items
    from postdate.node import log, serve, trace

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
    items.configure(split_list(settings.log_items), settings.log_items_per_second)
    uvloop.run(serve.serve(settings, role, tracing, parent))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; print an error as one sentence on standard error and return an exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_streams()
    try:
        # What a shell asks about is still being written: none of its words is for us.
        completing = words[:1] == [COMPLETE]
        left = output.take([] if completing else words)
        words = words if completing else left
        watch.run(app, words)
    except output.UsageError as error:
        _fail(str(error), USAGE)
    except StartError as error:
        _fail(str(error))
    except RefusedError as error:
        from postdate.cli.remote import EXITS

        refusal = error.refusal
        _fail(f"{refusal.detail} [{refusal.code}]", EXITS.get(refusal.status, FAILED))
    except KeyboardInterrupt:
        sys.exit(130)


def load_all() -> None:
    """Load every command, because a completion script names all of their options."""
    for name in COMMANDS:
        app[name]


def _open_streams() -> None:
    """Replace standard streams that were closed: a socket must not get the number of one."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _fail(sentence: str, code: int = FAILED) -> NoReturn:
    # The lines of the log come before the sentence that ends it.
    logging.shutdown()
    try:
        print(f"postdate: {sentence}", file=sys.stderr, flush=True)
    except OSError:
        # What is left in it would fail again at the exit, and change the code.
        sys.stderr = None
    sys.exit(code)
