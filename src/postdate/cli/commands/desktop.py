"""What ties the command to the rest of the desk: `open` in a browser, completion in the shell."""

import sys
import webbrowser
from typing import Annotated, Literal
from urllib.parse import urlencode

from cyclopts import Parameter

from postdate.cli.output import Json, asks, show
from postdate.cli.remote import server

Shell = Literal["bash", "zsh", "fish"]


def open_page(thing: str, *, json: Json = False) -> None:
    """Open a thing in the console; in a pipe only print its address.

    Parameters
    ----------
    thing
        Any id, account, lane, idempotency key or amount.
    json
        Print JSON.

    """
    url, _ = server()
    address = f"{url.rstrip('/')}/find?{urlencode({'q': thing})}"
    show({"url": address}, as_json=json)
    if asks(as_json=json):
        webbrowser.open(address)


def completion(
    shell: Shell,
    *,
    install: Annotated[bool, Parameter(negative=())] = False,
    json: Json = False,
) -> None:
    """Print the script by which a shell completes commands, lanes, schedules and destinations.

    Parameters
    ----------
    shell
        Which shell.
    install
        Put it where the shell finds it instead.
    json
        Print JSON.

    """
    from postdate.cli.main import app, load_all

    load_all()
    if install:
        show({"shell": shell, "path": str(app.install_completion(shell=shell))}, as_json=json)
    elif json:
        show({"shell": shell, "script": app.generate_completion(shell=shell)}, as_json=True)
    else:
        sys.stdout.write(app.generate_completion(shell=shell))
