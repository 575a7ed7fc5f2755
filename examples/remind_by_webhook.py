"""Be called back in a second, and check that it was really Postdate who called.

Needs a running server that may reach this machine (POSTDATE_ALLOW_PRIVATE_TARGETS=127.0.0.0/8),
POSTDATE_URL, and an admin key in POSTDATE_KEY.
"""

import base64
import hashlib
import hmac
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from postdate.client import Client

URL = os.environ.get("POSTDATE_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("POSTDATE_KEY", "")


class Reminder(BaseHTTPRequestHandler):
    """Answers one call and remembers it."""

    called = threading.Event()
    secret = b""
    text = ""
    genuine = False

    def do_POST(self) -> None:
        """Take a call in."""
        body = self.rfile.read(int(self.headers["content-length"]))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode()
        digest = hmac.new(Reminder.secret, signed + body, hashlib.sha256).digest()
        expected = "v1," + base64.b64encode(digest).decode()
        Reminder.genuine = expected in self.headers["webhook-signature"].split()
        Reminder.text = body.decode()
        self.send_response(204)
        self.end_headers()
        Reminder.called.set()

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def main() -> None:
    """Listen, ask for a call, wait for it."""
    listening = HTTPServer(("127.0.0.1", 0), Reminder)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    with Client(URL, KEY) as client:
        secret = client.call("GET", "/signing-secret")["secret"]
        Reminder.secret = base64.b64decode(secret.removeprefix("whsec_"))
        to = {"type": "webhook", "url": f"http://127.0.0.1:{listening.server_port}/remind"}
        client.accept_job(to, delay_seconds=1, payload={"text": "water the plants"})
        print("called:", Reminder.called.wait(30))
        print("text:", Reminder.text)
        print("signature holds:", Reminder.genuine)
    listening.shutdown()
    listening.server_close()


if __name__ == "__main__":
    main()
