"""Be called back in a second, and check that it was really Postdate who called.

Needs a running server that may reach this machine (POSTDATE_ALLOW_PRIVATE_TARGETS=127.0.0.0/8):
POSTDATE_URL names it, POSTDATE_API_KEY is an admin key.
"""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from postdate.client import Client, SignatureError, verify_webhook


class Reminder(BaseHTTPRequestHandler):
    """Answers one call and remembers it."""

    called = threading.Event()
    secret = ""
    received: Any = None

    def do_POST(self) -> None:
        """Take a call in."""
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            Reminder.received = verify_webhook(body, dict(self.headers), Reminder.secret).json()
        except SignatureError as error:
            self.send_error(401, str(error))
            return
        self.send_response(204)
        self.end_headers()
        Reminder.called.set()

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def main() -> None:
    """Listen, ask for a call, wait for it."""
    listening = HTTPServer(("127.0.0.1", 0), Reminder)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    with Client() as client:
        Reminder.secret = client.destinations.get_signing_secret().secret or ""
        client.jobs.create(
            destination={
                "type": "webhook",
                "url": f"http://127.0.0.1:{listening.server_port}/remind",
            },
            delay_seconds=1,
            payload={"text": "water the plants"},
        )
        print("called, and the signature holds:", Reminder.called.wait(30))
        print("text:", Reminder.received["text"])
    listening.shutdown()
    listening.server_close()


if __name__ == "__main__":
    main()
