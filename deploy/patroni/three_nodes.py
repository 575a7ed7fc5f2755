"""Run the three database nodes of this directory on the loopback address of one machine.

    python deploy/patroni/three_nodes.py /var/tmp/three

The files are those of a real installation; only addresses and passwords are made here. It ends with
Ctrl-C, and begins again with what it left in its directory.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from postdate.database.embedded import binaries, runas

HERE: Final = Path(__file__).resolve().parent
NAMES: Final = ("one", "two", "three")
FORM_SECONDS: Final = 300.0
"""How long three nodes may take until one leads and two follow."""

STOP_SECONDS: Final = 60.0
PASSWORDS: Final = (
    "PATRONI_RESTAPI_PASSWORD",
    "PATRONI_SUPERUSER_PASSWORD",
    "PATRONI_REPLICATION_PASSWORD",
    "PATRONI_REWIND_PASSWORD",
    "POSTDATE_APP_PASSWORD",
    "POSTDATE_MIGRATE_PASSWORD",
)


@dataclass
class DatabaseNode:
    """One machine of a real installation: an etcd, a Patroni and its PostgreSQL."""

    name: str
    home: Path
    user: runas.RunAs
    ports: dict[str, int]
    environment: dict[str, str] = field(default_factory=dict)
    etcd: "subprocess.Popen[bytes] | None" = None
    patroni: "subprocess.Popen[bytes] | None" = None

    def start_etcd(self) -> None:
        """Start the etcd of this node."""
        self.etcd = self._run("etcd")

    def start_patroni(self) -> None:
        """Start Patroni, which starts PostgreSQL."""
        self.patroni = self._run("patroni", "patroni.yaml")

    def start(self) -> None:
        """Start all of this node."""
        self.start_etcd()
        self.start_patroni()

    @property
    def postmaster(self) -> int | None:
        """Return the process id of PostgreSQL, if it has one."""
        with suppress(OSError, ValueError, IndexError):
            return int((self.home / "postgres/postmaster.pid").read_text().splitlines()[0])
        return None

    def kill_patroni(self) -> None:
        """End Patroni alone; PostgreSQL goes on."""
        _kill(self.patroni)

    def kill_etcd(self) -> None:
        """End etcd alone."""
        _kill(self.etcd)

    def kill_database(self) -> None:
        """End Patroni, then PostgreSQL, as a power cut would; etcd goes on."""
        self.kill_patroni()
        postmaster = self.postmaster
        if postmaster is not None:
            with suppress(ProcessLookupError):
                os.kill(postmaster, signal.SIGKILL)

    def kill(self) -> None:
        """End all of this node as a power cut would."""
        self.kill_database()
        self.kill_etcd()

    def stop(self) -> None:
        """Let Patroni stop PostgreSQL, then end etcd."""
        for process in (self.patroni, self.etcd):
            if process is None or process.poll() is not None:
                continue
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def cluster(self) -> list[dict[str, Any]]:
        """Ask the Patroni of this node about all members; nothing where it does not answer."""
        try:
            with urlopen(f"http://127.0.0.1:{self.ports['restapi']}/cluster", timeout=3) as answer:
                return list(json.load(answer)["members"])
        except (OSError, ValueError):
            return []

    def _run(self, program: str, *arguments: str) -> "subprocess.Popen[bytes]":
        become = _becoming(self.user)
        with (self.home / f"{program}.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - the programs beside our own Python
                [*become, str(Path(sys.executable).with_name(program)), *arguments],
                cwd=self.home,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **({} if become else self.user.popen()),
            )


class ThreeNodes:
    """Three database nodes, one of which leads."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.user = runas.choose(None)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.user.hand_over(home, 0o700)
        kept = home / "three_nodes.json"
        if not kept.exists():
            _write(kept, json.dumps({"ports": _free_ports(), "passwords": _new_passwords()}))
        known = json.loads(kept.read_text())
        self.passwords: dict[str, str] = known["passwords"]
        self.nodes = [self._node(name, known["ports"]) for name in NAMES]

    def start(self) -> None:
        """Start every node, and wait until one leads and the others follow."""
        for node in self.nodes:
            node.start_etcd()
        for node in self.nodes:
            node.start_patroni()
        _until(self.formed, FORM_SECONDS, "the three nodes did not form a cluster")

    def stop(self) -> None:
        """Stop the standbys, then the leader."""
        leader = self.leader()
        for node in sorted(self.nodes, key=lambda each: each is leader):
            if node.patroni is not None and node.patroni.poll() is None:
                node.patroni.terminate()
        for node in self.nodes:
            node.stop()

    def leader(self) -> DatabaseNode | None:
        """Return the node that leads, as any of them says."""
        names = {each["name"] for each in self.members() if each["role"] == "leader"}
        return next((node for node in self.nodes if node.name in names), None)

    def members(self) -> list[dict[str, Any]]:
        """Return the members of the cluster as a node knows them that lives."""
        for node in self.nodes:
            if (
                node.patroni is not None
                and node.patroni.poll() is None
                and (all_ := node.cluster())
            ):
                return all_
        return []

    def formed(self) -> bool:
        """Return whether one node leads and both others would be promoted without a loss."""
        found = self.members()
        roles = sorted(each["role"] for each in found if each["state"] in {"running", "streaming"})
        return roles == ["leader", "quorum_standby", "quorum_standby"]

    def dsn(self, login: str = "app", extra: str = "") -> str:
        """Return the address of all nodes for one of the two logins."""
        password = self.passwords[f"POSTDATE_{login.upper()}_PASSWORD"]
        hosts = ",".join(f"127.0.0.1:{node.ports['postgres']}" for node in self.nodes)
        return f"postgresql://postdate_{login}:{password}@{hosts}/postdate{extra}"

    def _node(self, name: str, ports: dict[str, dict[str, int]]) -> DatabaseNode:
        home = self.home / name
        home.mkdir(mode=0o700, exist_ok=True)
        self.user.hand_over(home, 0o700)
        for file in ("patroni.yaml", "create_database.sh"):
            shutil.copy(HERE / file, home / file)
        return DatabaseNode(name, home, self.user, ports[name], self._environment(name, ports))

    def _environment(self, name: str, ports: dict[str, dict[str, int]]) -> dict[str, str]:
        home, own = self.home / name, ports[name]
        programs = binaries.locate(self.user)
        peers = ",".join(f"{each}=http://127.0.0.1:{ports[each]['peer']}" for each in NAMES)
        clients = ",".join(f"127.0.0.1:{ports[each]['client']}" for each in NAMES)
        return self.passwords | {
            "PATH": f"{programs.bin}:{os.environ.get('PATH', '')}",
            "HOME": str(home),
            "ETCD_NAME": name,
            "ETCD_DATA_DIR": str(home / "etcd"),
            "ETCD_LISTEN_CLIENT_URLS": f"http://127.0.0.1:{own['client']}",
            "ETCD_ADVERTISE_CLIENT_URLS": f"http://127.0.0.1:{own['client']}",
            "ETCD_LISTEN_PEER_URLS": f"http://127.0.0.1:{own['peer']}",
            "ETCD_INITIAL_ADVERTISE_PEER_URLS": f"http://127.0.0.1:{own['peer']}",
            "ETCD_INITIAL_CLUSTER": peers,
            "ETCD_INITIAL_CLUSTER_TOKEN": "postdate",
            "ETCD_LOG_LEVEL": "warn",
            "PATRONI_NAME": name,
            "PATRONI_ETCD3_HOSTS": clients,
            "PATRONI_RESTAPI_LISTEN": f"127.0.0.1:{own['restapi']}",
            "PATRONI_RESTAPI_CONNECT_ADDRESS": f"127.0.0.1:{own['restapi']}",
            "PATRONI_RESTAPI_USERNAME": "patroni",
            "PATRONI_POSTGRESQL_LISTEN": f"127.0.0.1:{own['postgres']}",
            "PATRONI_POSTGRESQL_CONNECT_ADDRESS": f"127.0.0.1:{own['postgres']}",
            "PATRONI_POSTGRESQL_DATA_DIR": str(home / "postgres"),
            "PATRONI_POSTGRESQL_BIN_DIR": str(programs.bin),
            "PATRONI_POSTGRESQL_PGPASS": str(home / "pgpass"),
        }


def _becoming(user: runas.RunAs) -> list[str]:
    """Let root become a user who can also run a Python that lies where only root may look."""
    if not user.switch or user.can_access("-x", Path(sys.executable)):
        return []
    who = ["--reuid", str(user.uid), "--regid", str(user.gid), "--clear-groups"]
    return ["setpriv", *who, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]


def _kill(process: "subprocess.Popen[bytes] | None") -> None:
    if process is not None and process.poll() is None:
        process.kill()
        process.wait()


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _new_passwords() -> dict[str, str]:
    return {name: secrets.token_hex(16) for name in PASSWORDS}


def _free_ports() -> dict[str, dict[str, int]]:
    """Choose ports that are free now, all of them held until the last one is known."""
    kinds = ("client", "peer", "restapi", "postgres")
    held = [[socket.create_server(("127.0.0.1", 0)) for _ in kinds] for _ in NAMES]
    found = {
        name: {kind: each.getsockname()[1] for kind, each in zip(kinds, row, strict=True)}
        for name, row in zip(NAMES, held, strict=True)
    }
    for row in held:
        for each in row:
            each.close()
    return found


def _until(check: Callable[[], bool], seconds: float, failure: str) -> None:
    end = time.monotonic() + seconds
    while not check():
        if time.monotonic() > end:
            raise TimeoutError(failure)
        time.sleep(0.2)


def main() -> None:
    """Run until Ctrl-C."""
    cluster = ThreeNodes(Path(sys.argv[1]))
    try:
        cluster.start()
        print("POSTDATE_DATABASE_URL=" + cluster.dsn())
        print("POSTDATE_OWNER_DATABASE_URL=" + cluster.dsn("migrate"), flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
