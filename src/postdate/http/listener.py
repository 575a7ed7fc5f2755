"""Take the port that the HTTP server listens on."""

import errno
import socket
from typing import Final

from postdate.words.error import StartError

BACKLOG: Final = 1024
"""How many connections may wait to be accepted."""


def bind(host: str, port: int, backlog: int = BACKLOG, *, shared: bool = False) -> socket.socket:
    """Take the port, before anything else is started; port 0 takes a free one.

    A shared one may be taken by other processes of this user too, which get their part of the
    connections.
    """
    family = _family(host)
    try:
        return socket.create_server((host, port), family=family, backlog=backlog, reuse_port=shared)
    except OSError as error:
        raise StartError(_bind_sentence(host, port, error)) from None


def bind_beside(host: str, port: int) -> socket.socket:
    """Take a port beside another process, and no connection before the server listens.

    A client that connects while this process starts is answered by the other one.
    """
    taken = socket.socket(_family(host), socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind((host, port))
    except OSError as error:
        taken.close()
        raise StartError(_bind_sentence(host, port, error)) from None
    return taken


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _bind_sentence(host: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} on {host} is taken: stop what uses it or set POSTDATE_PORT"
        case errno.EACCES:
            return f"port {port} on {host} needs more rights: set POSTDATE_PORT to 1024 or higher"
        case _:
            return f"{host} is not an address of this machine ({error}): set POSTDATE_HOST"
