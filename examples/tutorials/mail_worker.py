"""A worker that sends mail once: the job's id and the mail are written in one transaction.

Run it beside a Postdate server (docs/start/tutorial-worker.md tells the story):

    python examples/tutorials/mail_worker.py
"""

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from postdate.client import GiveUpError, Lease, RetryLaterError, Worker

worker = Worker(concurrency=4, lease_seconds=30)


@contextmanager
def transaction() -> Iterator[sqlite3.Connection]:
    """Open the application's own database, all or nothing."""
    connection = sqlite3.connect(os.environ.get("MAIL_DATABASE", "mail.db"), timeout=10)
    try:
        with connection:
            connection.execute("CREATE TABLE IF NOT EXISTS done (job_id text PRIMARY KEY)")
            connection.execute("CREATE TABLE IF NOT EXISTS sent (receiver text, subject text)")
            yield connection
    finally:
        connection.close()


@worker.handler("mail", kind="welcome")
def send_welcome(lease: Lease) -> dict[str, str]:
    """Send one mail. A job may come again after a crash: the table `done` makes it once."""
    receiver = lease.payload["to"]
    if "@" not in receiver:
        raise GiveUpError(f"{receiver} is no address", code="bad_address")
    if receiver.startswith("slow@") and lease.attempt == 1:
        raise RetryLaterError("the mail server is busy", seconds=1)
    with transaction() as connection:
        inserted = connection.execute(
            "INSERT OR IGNORE INTO done (job_id) VALUES (?)", (str(lease.job_id),)
        )
        if inserted.rowcount:
            connection.execute("INSERT INTO sent VALUES (?, 'Welcome')", (receiver,))
    return {"sent": receiver}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    worker.run_forever()
