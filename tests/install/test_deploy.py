"""Unit, container, compose file and chart: what can be checked without a machine to run them on."""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from postdate.node.serve import ROLES
from postdate.node.settings import FIELDS, ProcessSettings
from support import container_file
from support.container_file import INSIDE

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy/systemd/postdate.service"
CONTAINER = ROOT / "deploy/container/Containerfile"
COMPOSE = ROOT / "deploy/compose/compose.yaml"
CHART = ROOT / "deploy/helm/postdate"
INSTRUCTIONS = {
    "FROM", "ARG", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL",
    "HEALTHCHECK", "ENTRYPOINT", "CMD",
}  # fmt: skip


@pytest.mark.parametrize(
    "file",
    [
        UNIT,
        CONTAINER,
        COMPOSE,
        CHART / "templates/_helpers.tpl",
        CHART / "templates/deployment.yaml",
    ],
    ids=lambda file: file.name,
)
def test_every_setting_it_names_exists(file: Path) -> None:
    named = {
        name.removeprefix("POSTDATE_").lower()
        for name in re.findall(r"\bPOSTDATE_[A-Z_]+", file.read_text())
    }
    assert named
    assert named <= FIELDS.keys()


UNITS = sorted((ROOT / "deploy").glob("*/*.service"))
MAX_EXPOSURE = {"postdate.service": 1.2}
OTHERS_MAX_EXPOSURE = 3.6
"""What systemd counts as open to a process that was taken over: 0 is nothing, 10 all."""


def systemd() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("systemd-analyze is not installed")
    return found


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_systemd_accepts_the_unit(file: Path, tmp_path: Path) -> None:
    here = Path(sys.executable).with_name("postdate")
    unit = tmp_path / file.name
    ours = re.sub(r"^(ExecStart=)\S+", rf"\g<1>{here}", file.read_text(), flags=re.MULTILINE)
    unit.write_text(ours)
    ran = subprocess.run(
        [systemd(), "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    said = [line for line in ran.stderr.splitlines() if file.name in line]
    assert not said, ran.stderr


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_little_is_open_to_a_process_that_was_taken_over(file: Path) -> None:
    ran = subprocess.run(
        [systemd(), "security", "--offline=yes", str(file)], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    level = re.findall(r"exposure level for \S+: ([\d.]+)", ran.stdout)
    if not level:
        pytest.skip(f"this systemd cannot read a unit that is not loaded: {ran.stderr[-100:]}")
    assert float(level[0]) <= MAX_EXPOSURE.get(file.name, OTHERS_MAX_EXPOSURE), ran.stdout


def test_the_unit_leaves_time_to_drain() -> None:
    text = UNIT.read_text()
    stop = int(re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[0])
    assert stop > ProcessSettings().drain_seconds
    assert "DynamicUser=yes" in text


def test_the_container_file_is_well_formed_and_not_root() -> None:
    lines = container_file.instructions()
    names = [name for name, _ in lines]
    assert set(names) <= INSTRUCTIONS
    assert names[0] == "FROM"
    last = len(names) - 1 - names[::-1].index("FROM")
    assert names.index("USER", last) < names.index("ENTRYPOINT")
    for name, rest in lines:
        if name == "COPY" and "--from" not in rest:
            assert all((ROOT / source).exists() for source in rest.split()[:-1])
    assert container_file.command() == [f"{INSIDE}postdate", "serve"]
    assert container_file.health_check()[0] == f"{INSIDE}python"


def test_the_container_is_built_from_the_lock_file_and_from_little_else() -> None:
    text = CONTAINER.read_text()
    assert len(re.findall(r"uv sync --locked --no-dev .*--no-", text)) == 2
    assert re.search(r"pip install --no-cache-dir uv==[\d.]+$", text, re.MULTILINE)
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] != "#"]
    assert lines[0] == "*"
    sent = {line[1:] for line in lines if line.startswith("!")}
    assert {"src", "packages", "uv.lock", "hatch_build.py", "package-lock.json"} <= sent
    assert all((ROOT / name).exists() for name in sent)
    assert not sent & {".", "data", ".git", "tests"}


def test_the_compose_file_starts_the_server_after_its_database() -> None:
    compose = yaml.safe_load(COMPOSE.read_text())
    server = compose["services"]["postdate"]
    assert server["depends_on"]["database"]["condition"] == "service_healthy"
    assert (COMPOSE.parent / server["build"]["context"]).resolve() == ROOT
    assert (ROOT / server["build"]["dockerfile"]) == CONTAINER
    assert server["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in server["ports"])
    used = {volume.partition(":")[0] for each in compose["services"].values()
            for volume in each["volumes"]}  # fmt: skip
    assert used == compose["volumes"].keys()


def test_the_chart_has_the_version_of_the_project_and_every_role() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert chart["appVersion"] == version("postdate")
    assert values["roles"].keys() == set(ROLES)
    assert values["terminationGracePeriodSeconds"] > ProcessSettings().drain_seconds
    jsonschema = json.loads((CHART / "values.schema.json").read_text())
    assert values.keys() | {"global"} == jsonschema["properties"].keys()


GIVEN = (
    "existingSecret=pd", "ingress.enabled=true", "ingress.host=x.example", "migrate.ownLogin=true",
    "settings.log_level=debug",
)  # fmt: skip


def test_helm_accepts_the_chart_and_kubernetes_what_it_renders(tmp_path: Path) -> None:
    helm = _tool("helm")
    given = [part for each in GIVEN for part in ("--set", each)]
    _run(helm, "lint", "--strict", str(CHART), *given)
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(_run(helm, "template", "pd", str(CHART), *given))
    found = list(yaml.safe_load_all(rendered.read_text()))
    kinds = Counter(each["kind"] for each in found)
    assert kinds == {
        "Deployment": 4, "PodDisruptionBudget": 4, "Service": 1, "ServiceAccount": 1, "Ingress": 1,
        "Job": 1,
    }  # fmt: skip
    validate = shutil.which("kubeconform") or _tool("kubernetes-validate")
    _run(validate, "-strict" if "kubeconform" in validate else "--strict", str(rendered))


def test_helm_refuses_a_chart_without_its_secret_or_with_an_unknown_value() -> None:
    helm = _tool("helm")
    for given in ("existingSecret=", "roles.baker.replicas=1", "existingSecret=x,colour=red"):
        command = [helm, "template", "pd", str(CHART), "--set", given]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode != 0, given


def _tool(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here: `make setup` brings it where PyPI has a wheel of it")
    return found


def _run(*command: str) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
