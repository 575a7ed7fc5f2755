"""Desktop integration: `open` in a browser, completion in the shell."""

import sys
import webbrowser
from typing import Annotated, Final, Literal
from urllib.parse import urlencode

from cyclopts import Parameter

from postdate.cli.output import asks, show, wants_json
from postdate.cli.remote import server

ShellName = Literal["bash", "zsh", "fish"]

SOURCED: Final = {"zsh": "\ncompdef _cyclopts_postdate postdate\n"}
"""What a script needs that is read by `source`; zsh finds an installed one by its place."""


def open_page(thing: str) -> None:
    """Open an object in the console; in a pipe, only print its address.

    Parameters
    ----------
    thing
        Any id, account, lane, idempotency key or amount.

    """
    address = f"{server().url}/find?{urlencode({'q': thing})}"
    show({"url": address})
    if asks():
        webbrowser.open(address)


def completion(
    shell: ShellName, *, install: Annotated[bool, Parameter(negative=())] = False
) -> None:
    """Print a completion script for commands, lanes, schedules and destinations.

    Parameters
    ----------
    shell
        Which shell.
    install
        Install the script instead of printing it.

    """
    from postdate.cli.main import app, load_all

    load_all()
    if install:
        show({"shell": shell, "path": str(app.install_completion(shell=shell))})
    elif wants_json():
        show({"shell": shell, "script": app.generate_completion(shell=shell)})
    else:
        sys.stdout.write(app.generate_completion(shell=shell) + SOURCED.get(shell, ""))
