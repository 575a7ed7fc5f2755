"""The command `postdate`."""

import logging
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, Literal, NoReturn

import cyclopts
import uvloop

from postdate.cli import number, output, watch
from postdate.node.settings import load, split_list
from postdate.words.error import RefusedError, StartError

FAILED: Final = 1
USAGE: Final = 2
COMPLETE: Final = "__complete"
"""How a shell asks what could follow; its words are no options of ours."""

COMMANDS: Final = {
    "migrate": "migrate:migrate",
    "key": "key:key_app",
    "setting": "setting:setting_app",
    "tenant": "tenant:tenant_app",
    "clock": "clock:clock_app",
    "node": "node:node_app",
    "settlement": "settlement:settlement_app",
    "secret": "secret:secret_app",
    "events": "event:events_app",
    "bench": "lab:bench",
    "chaos": "lab:chaos",
    "job": "job:job_app",
    "payment": "payment:payment_app",
    "account": "account:account_app",
    "dead-letter": "dead_letter:dead_letter_app",
    "destination": "destination:destination_app",
    "subscription": "subscription:subscription_app",
    "schedule": "schedule:schedule_app",
    "calendar": "calendar:calendar_app",
    "foresight": "foresight:foresight_app",
    "receipt": "receipt:receipt_app",
    "change-set": "change_set:change_set_app",
    "api": "api:api",
    "lane": "lane:lane_app",
    "top": "top:top",
    "restore": "restore:restore_app",
    "audit": "audit:audit",
    "prove": "prove:prove",
    "reconcile": "prove:reconcile",
    "history": "history:history_app",
    "demo": "demo:demo",
    "simulate": "simulate:simulate",
    "relay": "relay:relay",
    "worker": "worker:worker",
    "open": "desktop:open_page",
    "completion": "desktop:completion",
}
"""Every command, and the module that completes it: only that of the one that runs is loaded."""

LAB: Final = {"bench": "bench:bench_app", "chaos": "chaos:chaos"}
"""Commands of the distribution postdate-lab, where it is installed."""

app = cyclopts.App(
    name="postdate",
    help="Anything, later, exactly once: a durable scheduler that can also move money.",
    version_flags=["--version"],
    default_parameter=number.PARAMETER,
    help_epilogue=output.EVERYWHERE,
)
_lab = LAB if find_spec("postdate_lab") else {}
for _name, _place in COMMANDS.items():
    _module = (
        f"postdate_lab.commands.{_lab[_name]}"
        if _name in _lab
        else f"postdate.cli.commands.{_place}"
    )
    app.command(_module, name=_name)


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
        if not words or words[0] in app.help_flags:
            load_all()
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
    """Load every command, because the list of commands shows what each one does."""
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
