"""Models of lease, claim, keys, cancel and settlement, checked by Spin; twins must fail."""

import asyncio
import shutil
from pathlib import Path

import pytest

MODELS = Path(__file__).parents[1] / "spin"
MISSING = [name for name in ("spin", "gcc") if shutil.which(name) is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"{' and '.join(MISSING)} is not installed (Debian package spin)"
)

TWINS = [
    ("lease", "TOKEN_REUSED"),
    ("settle", "LOOK_FIRST"),
    ("claim", "CANCEL_WITHOUT_PLACE"),
    ("cancel", "CLAIM_IGNORES_REQUEST"),
    ("key", "LIVE_ONLY"),
]
MORE_TWINS = [
    ("lease", "NO_TOKEN_IN_RECORD"),
    ("lease", "NO_GIVE_BACK"),
    ("lease", "RECORD_NOT_REPEATED"),
    ("settle", "NO_SHARE"),
    ("settle", "NO_TIMER_LOCK"),
    ("settle", "ACK_AT_ONCE"),
    ("claim", "CLAIM_WITHOUT_PLACE"),
    ("claim", "EXPIRED_CLAIM_KEPT"),
    ("claim", "RETRY_NOT_RELEASED"),
    ("claim", "END_WITHOUT_CLAIM"),
    ("cancel", "FAILURE_IS_RETRIED"),
    ("cancel", "SWEEP_WITHOUT_LOCK"),
    ("cancel", "NO_SWEEP"),
    ("cancel", "REQUEST_WITHOUT_LOCK"),
    ("cancel", "NO_TOKEN_IN_REPORT"),
    ("key", "NO_PLACE"),
    ("key", "COUNT_BEFORE_PLACE"),
    ("key", "LIMIT_REMEMBERED"),
    ("key", "LOST_LEFT_ALONE"),
    ("key", "COUNTED_SLOTS"),
]
"""Compiling one takes longer than searching it: these are left to `make soak`."""


async def run(directory: Path, *command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=directory, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, said.decode()
    return said.decode()


async def check(directory: Path, model: str, *switches: str) -> tuple[int, bool]:
    """Search every order of a model; give how many errors were found, and whether all was seen."""
    given = [f"-D{each}" for each in switches]
    await run(directory, "spin", *given, "-a", str(MODELS / f"{model}.pml"))
    await run(directory, "gcc", "-DSAFETY", "-w", "-o", "pan", "pan.c")
    said = await run(directory, "./pan", "-m100000")
    [line] = [each for each in said.splitlines() if "errors:" in each]
    return int(line.rpartition("errors:")[2]), "max search depth too small" not in said


@pytest.mark.parametrize("model", ["lease", "settle", "claim", "cancel", "key"])
async def test_the_model_holds_in_every_order(model: str, tmp_path: Path) -> None:
    assert await check(tmp_path, model) == (0, True)


@pytest.mark.parametrize(
    ("model", "switch"),
    [*TWINS, *(pytest.param(*each, marks=pytest.mark.soak) for each in MORE_TWINS)],
)
async def test_a_seeded_bug_of_the_model_is_found(model: str, switch: str, tmp_path: Path) -> None:
    # Where leases run out, even a forgotten one comes back: liveness is seen without that.
    endless = ("ENDLESS",) if switch in {"NO_GIVE_BACK", "RECORD_NOT_REPEATED"} else ()
    errors, _ = await check(tmp_path, model, switch, *endless)
    assert errors > 0
