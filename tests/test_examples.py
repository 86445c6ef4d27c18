"""The examples run as they stand, and what is deployed with them exists: verbs, options, settings."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer.main
from duetime.server.cli_verbs import app
from duetime.server.settings import Settings

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
COMPOSE = EXAMPLES / "compose" / "compose.yaml"
KUBERNETES = EXAMPLES / "kubernetes" / "duetime.yaml"
UNITS = sorted((EXAMPLES / "systemd").glob("*.service"))
ENVIRONMENTS = sorted(EXAMPLES.rglob("*.env.example"))

yaml: Any = import_module("yaml")


def test_a_program_schedules_runs_its_handler_and_cancels() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "from_python.py")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Hello, Ada! (attempt 1 of t_" in done.stdout
    assert "Greet all: scheduled" in done.stdout


# --- deployments ------------------------------------------------------------------------------------------------------


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]
    return found


def documents(kind: str) -> list[Any]:
    return [each for each in yaml.safe_load_all(KUBERNETES.read_text("utf-8")) if each["kind"] == kind]


def pods() -> list[Any]:
    return [each["spec"]["template"]["spec"] for kind in ("Job", "Deployment") for each in documents(kind)]


def called() -> Iterator[list[str]]:
    """Yield every call of `duetime` that the examples make, from its verb on."""
    for service in services().values():
        if service["image"] == "duetime":
            yield service["command"]
        test = service.get("healthcheck", {}).get("test", [])
        if test[1:2] == ["duetime"]:
            yield test[2:]
    for pod in pods():
        for container in (each for each in pod["containers"] if each["image"] == "duetime"):
            yield container["args"]
            yield from (probe["exec"]["command"][1:] for name, probe in container.items() if name.endswith("Probe"))
    for unit in UNITS:
        (line,) = re.findall(r"^ExecStart=(.+)$", unit.read_text("utf-8"), flags=re.MULTILINE)
        program, *arguments = shlex.split(line)
        assert program.endswith("/duetime")
        yield arguments


def test_every_verb_and_option_that_the_examples_use_exists() -> None:
    commands = list(called())
    assert {command[0] for command in commands} == {"migrate", "serve", "worker", "workers"}
    root: Any = typer.main.get_command(app)
    for verb, *rest in commands:
        options = {name for each in root.commands[verb].params for name in each.opts}
        assert {word for word in rest if word.startswith("-")} <= options, (verb, rest)


@pytest.mark.parametrize("path", [*ENVIRONMENTS, KUBERNETES], ids=lambda path: path.name)
def test_every_setting_of_the_examples_exists_and_is_accepted(path: Path) -> None:
    given = dict(
        re.findall(r"^ *DUETIME_([A-Z_]+)[=:] ?\"?([^\"\n]+)\"?$", path.read_text("utf-8"), flags=re.MULTILINE)
    )
    settings = Settings(**{name.lower(): value for name, value in given.items()})
    assert settings.distributed
    assert settings.database_url.startswith("postgresql+psycopg://")


def test_no_port_of_the_examples_leads_past_the_proxy() -> None:
    for name, service in services().items():
        published = [port.rsplit(":", 1) for port in service.get("ports", [])]
        assert all(inside == "8080" and outside.startswith("127.0.0.1:") for outside, inside in published), name
    exposed = {port["containerPort"] for pod in pods() for each in pod["containers"] for port in each.get("ports", [])}
    assert exposed == {8080}
    for text in (KUBERNETES.read_text("utf-8"), (EXAMPLES / "compose" / "Caddyfile").read_text("utf-8")):
        assert text.count("basic_auth {") == 1
        assert "--host 0.0.0.0" not in text


def test_each_server_has_a_proxy_in_its_own_network_namespace() -> None:
    shared = {service["network_mode"] for service in services().values() if "network_mode" in service}
    assert shared == {"service:server-1", "service:server-2"}
    (servers,) = [pod for pod in pods() if any(each.get("args") == ["serve"] for each in pod["containers"])]
    assert [each["name"] for each in servers["containers"]] == ["server", "proxy"]


def test_processes_get_longer_to_stop_than_what_runs_has_to_end() -> None:
    grace = float(re.findall(r"GRACE_SECONDS=(\d+)", (EXAMPLES / "compose/duetime.env.example").read_text("utf-8"))[0])
    for name, service in services().items():
        if service.get("command", [""])[0] in {"serve", "worker"}:
            assert float(service["stop_grace_period"].removesuffix("s")) > grace + 10, name
    (settings,) = [each for each in documents("ConfigMap") if each["metadata"]["name"] == "duetime"]
    for deployment in documents("Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] > float(settings["data"]["DUETIME_GRACE_SECONDS"]) + 10
        assert all(each["resources"]["limits"] for each in pod["containers"])
    for unit in UNITS:
        assert float(re.findall(r"^TimeoutStopSec=(\d+)$", unit.read_text("utf-8"), flags=re.MULTILINE)[0]) > 30


def test_no_password_of_the_examples_is_more_than_a_placeholder() -> None:
    for path in (*ENVIRONMENTS, KUBERNETES):
        passwords = re.findall(r"(?::|PASSWORD=)([^:@/\s]+)@|PASSWORD=(\S+)", path.read_text("utf-8"))
        assert {word for pair in passwords for word in pair if word} <= {"change-me", "change-me-too"}, path
