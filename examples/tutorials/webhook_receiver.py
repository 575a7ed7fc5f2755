"""Receive webhooks with nothing but the standard library and the client.

Run it beside a Postdate server (docs/start/tutorial-webhooks.md tells the story):

    python examples/tutorials/webhook_receiver.py
"""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from postdate.client import SignatureError, verify_webhook

SECRET = os.environ["HOOK_SECRET"]
seen: set[str] = set()


class Receiver(BaseHTTPRequestHandler):
    """Answers 2xx to what it has taken, 401 to what is not genuine, 503 to be called again."""

    def do_POST(self) -> None:
        """Take one call."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            delivery = verify_webhook(body, dict(self.headers), SECRET)
        except SignatureError as error:
            self._answer(401, str(error))
            return
        if delivery.json().get("busy") and delivery.attempt == 1:
            self._answer(503, "not now")  # the job's retry policy calls again
            return
        if delivery.id not in seen:
            seen.add(delivery.id)
            print(f"took {delivery.json()['order']}, attempt {delivery.attempt}", flush=True)
        self._answer(200, "taken")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Leave the log to the lines above."""


if __name__ == "__main__":
    port = int(os.environ.get("HOOK_PORT", "9001"))
    ThreadingHTTPServer(("127.0.0.1", port), Receiver).serve_forever()
