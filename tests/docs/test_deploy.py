"""The unit and the container file: what can be checked without a machine to install them on."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from postdate.node.settings import FIELDS, Settings

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy/systemd/postdate.service"
CONTAINER = ROOT / "deploy/container/Containerfile"
INSTRUCTIONS = {
    "FROM", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK",
    "ENTRYPOINT", "CMD",
}  # fmt: skip


@pytest.mark.parametrize("file", [UNIT, CONTAINER], ids=lambda file: file.name)
def test_every_setting_it_names_exists(file: Path) -> None:
    named = {
        name.removeprefix("POSTDATE_").lower()
        for name in re.findall(r"\bPOSTDATE_[A-Z_]+", file.read_text())
    }
    assert named
    assert named <= FIELDS.keys()


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        pytest.skip("systemd-analyze is not installed")
    here = Path(sys.executable).with_name("postdate")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/postdate/bin/postdate", str(here)))
    ran = subprocess.run(
        [systemd, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    said = [line for line in ran.stderr.splitlines() if UNIT.name in line]
    assert not said, ran.stderr


def test_the_unit_leaves_time_to_drain() -> None:
    text = UNIT.read_text()
    stop = int(re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[0])
    assert stop > Settings().drain_seconds
    assert "DynamicUser=yes" in text


def test_the_container_file_is_well_formed_and_not_root() -> None:
    text = re.sub(r"\\\n", " ", CONTAINER.read_text())
    lines = [line.split(" ", 1) for line in text.splitlines() if line and line[0] != "#"]
    names = [name for name, _ in lines]
    assert set(names) <= INSTRUCTIONS
    assert names[0] == "FROM"
    last = len(names) - 1 - names[::-1].index("FROM")
    assert names.index("USER", last) < names.index("ENTRYPOINT")
    for name, rest in lines:
        if name == "COPY" and "--from" not in rest:
            assert (ROOT / rest.split()[0]).exists()
        if name in {"ENTRYPOINT", "CMD"}:
            assert rest.startswith("[")


def test_the_extras_of_the_container_exist() -> None:
    wanted = re.findall(r"/source\[([\w,]+)\]", CONTAINER.read_text())[0].split(",")
    project = (ROOT / "pyproject.toml").read_text()
    for extra in wanted:
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra
