"""`postdate chaos`: break Postdate on purpose, on separate processes and a separate database."""

import random
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final

from postdate.cli.output import show, wants_json

if TYPE_CHECKING:
    from postdate_lab.chaos.report import ChaosReport

VIOLATED: Final = 7
"""The exit code when an invariant did not hold."""


def chaos(  # noqa: PLR0913 - each is an option of the command
    *,
    seed: int | None = None,
    seconds: float = 60.0,
    rate: float = 20.0,
    bulk: float = 0.0,
    pause: float = 2.5,
    apis: int = 2,
    workers: int = 3,
    settlers: int = 2,
    publishers: int = 2,
    disk_mb: int = 0,
    idle_tenants: int = 0,
    fault: list[str] | None = None,
    out: Path | None = None,
    judge: Path | None = None,
) -> None:
    """Run a mixed workload under faults and check every invariant; exit 7 if one broke.

    Parameters
    ----------
    seed
        Seed of the run; the same seed gives the same operations and faults.
    seconds
        How long the workload and its faults last; recovery and checking are extra.
    rate
        Operations started per second.
    bulk
        Payments per second sent in batches, and as many jobs, by many additional tenants.
    pause
        Mean seconds between two faults.
    apis
        Processes of the role api.
    workers
        Processes of the role worker.
    settlers
        Processes of the role settlement.
    publishers
        Processes of the role publisher.
    disk_mb
        Size of a disk of its own for the database and the logs, in MB; 0 for none.
    idle_tenants
        How many tenants there are that do nothing.
    fault
        Only these faults: kill, zombie, postmaster, backend, cut, silence, refuse, lock, broker,
        hold, log, disk, clock, half_open, one_way, revoke, table, supervisor, guest, restart,
        apis, or none; may be given several times. Without it all that this machine allows: disk
        needs --disk-mb and root, clock needs libfaketime.
    out
        Empty or new directory for history, logs and reports; a temporary one if absent.
    judge
        Run nothing: check again what an earlier run has left in this directory.

    """
    import uvloop

    from postdate.node import log
    from postdate_lab.chaos.plan import ChaosPlan
    from postdate_lab.chaos.run import conclude, run

    log.configure("error", "console")
    plan = ChaosPlan(
        seed=random.randrange(10**6) if seed is None else seed, seconds=seconds, rate=rate,
        bulk=bulk, pause_seconds=pause, apis=apis, workers=workers, settlers=settlers,
        publishers=publishers, faults=_wanted(fault, disk_mb),
        disk_mb=disk_mb, idle_tenants=idle_tenants,
    )  # fmt: skip
    home = judge or _home(out)
    _print_verdict(conclude(home) if judge else uvloop.run(run(plan, home)), home)


def _wanted(named: list[str] | None, disk_mb: int) -> tuple[str, ...]:
    """Return the faults that are named, or all that this machine allows."""
    from postdate.words.error import StartError
    from postdate_lab.chaos.plan import FAULTS
    from postdate_lab.chaos.small_disk import may_mount
    from postdate_lab.chaos.wrong_clock import LIBRARY

    lacking = {"disk": not (disk_mb and may_mount()), "clock": LIBRARY is None}
    allowed = [name for name in FAULTS if not lacking.get(name)]
    wanted = tuple(name for name in named or allowed if name != "none")
    if unknown := sorted(set(wanted) - set(FAULTS)):
        raise StartError(f"{unknown[0]} is not a fault: known are {', '.join(FAULTS)} and none")
    return wanted


def _print_verdict(found: "ChaosReport", home: Path) -> None:
    """Print the verdict of a run; exit 7 if an invariant did not hold."""
    from postdate_lab.chaos.report import markdown

    if wants_json():
        show(found)
    else:
        print(markdown(found))
        print(f"history, logs and reports are in {home}")
    if not found.holds:
        sys.exit(VIOLATED)


def _home(out: Path | None) -> Path:
    """Make the directory; root's server has a user of its own, who must get through."""
    if out is None:
        out = Path(mkdtemp(prefix="pdc"))
    out.mkdir(parents=True, exist_ok=True)
    out.chmod(0o711)
    return out
