"""Run the harness without its containers: PostgreSQL of the wheel, adapters as plain processes.

    python -m postdate_lab.queue_bench.native HARNESS --systems postdate,oban --phase …

Only the standard library and the harness are imported here. `POSTDATE_PYTHON` names the
interpreter that has Postdate; the peers run in the one that runs this.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from json import dumps
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from postdate_lab.queue_bench.contract import MANIFESTS, Manifest

READY_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0


class PlainServer:
    """The PostgreSQL of a run, in place of the harness's container."""

    def __init__(self, harness: Path, home: Path, interpreter: str, port: int) -> None:
        self._config = harness / "postgres.conf"
        self._home = home
        self._interpreter = interpreter
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *_: Any) -> None:
        """Start the server, with its data if there are any, and wait until it answers."""
        if self._process is not None and self._process.poll() is None:
            return
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [
                self._interpreter, "-m", "postdate_lab.queue_bench.server",
                str(self._home / "postgres"), str(self._port), str(self._config),
            ],
            stdin=subprocess.DEVNULL, stdout=sys.stderr,
        )  # fmt: skip
        ends = time.monotonic() + READY_SECONDS
        while not self._answers():
            if time.monotonic() > ends or self._process.poll() is not None:
                raise SystemExit("The PostgreSQL of the benchmark does not start.")
            time.sleep(0.2)

    def _answers(self) -> bool:
        import psycopg

        login = f"postgres://bench:bench@127.0.0.1:{self._port}/postgres"
        try:
            psycopg.connect(login, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, *_: Any) -> None:
        """Stop the server; its data stay."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(STOP_SECONDS)

    def remove(self, *_: Any) -> None:
        """Stop the server, and throw its data away: each system begins on an empty one."""
        self.stop()
        shutil.rmtree(self._home / "postgres", ignore_errors=True)

    def restart(self, *_: Any) -> None:
        """Stop and start the server: a fault of the harness."""
        self.stop()
        self.start()


def use_plain_server(orchestrator: ModuleType, server: PlainServer) -> None:
    """Put a server in the place of the harness's containers."""
    replaced = {
        "start_postgres": server.start,
        "stop_postgres": server.remove,
        "_compose_stop_postgres": server.stop,
        "_compose_start_postgres": server.start,
        "_restart_postgres": server.restart,
    }
    for name, function in replaced.items():
        if not hasattr(orchestrator, name):
            raise SystemExit(f"This harness has no {name}: it is newer than this adapter.")
        setattr(orchestrator, name, function)


def register(adapters: ModuleType, home: Path, interpreter: str) -> None:
    """Replace the harness's adapters by ours, as plain processes."""
    adapters.ADAPTERS.clear()
    for name, manifest in MANIFESTS.items():
        directory = home / f"{name}-bench"
        directory.mkdir()
        (directory / "adapter.json").write_text(dumps(_described(manifest)))
        own = interpreter if name == "postdate" else sys.executable
        adapters.ADAPTERS[name] = adapters.AdapterEntry(
            bench_dir=directory, builder=lambda _: None, launcher=_launcher(adapters, name, own)
        )


def _described(manifest: Manifest) -> dict[str, Any]:
    return {
        "system": manifest.system, "display_name": manifest.display_name,
        "db_name": manifest.db_name, "event_tables": list(manifest.event_tables),
        "event_indexes": [], "extensions": [],
    }  # fmt: skip


def _launcher(adapters: ModuleType, name: str, interpreter: str) -> Any:
    def launch(manifest: Any, overrides: dict[str, str]) -> Any:
        return adapters.LaunchSpec(
            argv=[interpreter, "-m", "postdate_lab.queue_bench.adapter", name],
            env=adapters._base_env(manifest, overrides),  # noqa: SLF001 - the harness's defaults
        )

    return launch


def main(harness: Path, arguments: list[str]) -> int:
    """Run the harness with these arguments."""
    if not (harness / "bench_harness" / "orchestrator.py").is_file():
        raise SystemExit(f"{harness} is no checkout of postgresql-job-queue-benchmarking.")
    sys.path.insert(0, str(harness))
    from bench_harness import (  # type: ignore[import-not-found]  # it is given, not installed
        adapters,
        orchestrator,
    )

    interpreter = os.environ.get("POSTDATE_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="pdq") as directory:
        home = Path(directory)
        # The user that PostgreSQL runs as must reach its own directory.
        home.chmod(0o711)
        server = PlainServer(harness, home, interpreter, adapters.PG_PORT)
        use_plain_server(orchestrator, server)
        register(adapters, home, interpreter)
        try:
            return int(orchestrator.main(["run", *arguments]) or 0)
        finally:
            server.stop()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
