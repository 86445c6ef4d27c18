"""The examples run as they stand, and what is deployed with them exists: verbs, options, settings."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from duetime.server.cli.verbs import duetime_command
from duetime.server.settings.model import Settings
from duetime.server.settings.source import load_settings

from tests.builders import some

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
COMPOSE = EXAMPLES / "compose" / "compose.yaml"
KUBERNETES = EXAMPLES / "kubernetes" / "duetime.yaml"
PROJECT = EXAMPLES.parent
SETTINGS_FILE = EXAMPLES / "duetime.toml"
IN_FORCE = "/etc/duetime/duetime.toml"
IMAGE = "registry.example.com/replace-me/duetime:1"
UNITS = sorted((EXAMPLES / "systemd").glob("*.service"))
ENVIRONMENTS = sorted(EXAMPLES.rglob("duetime.env.example"))

yaml: Any = import_module("yaml")


def ran(example: str) -> subprocess.CompletedProcess[str]:
    """Run it in a process of its own: a fork has modules that an example forgot to import."""
    command = [sys.executable, str(EXAMPLES / example)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def test_a_program_schedules_runs_its_handler_and_cancels() -> None:
    done = ran("from_python.py")
    assert done.returncode == 0, done.stderr
    assert "Hello, Ada! (attempt 1 of t_" in done.stdout
    assert "The outcome: succeeded, greeted Ada" in done.stdout
    assert "Greet all: scheduled" in done.stdout


def test_an_asynchronous_program_schedules_waits_and_cancels() -> None:
    done = ran("from_asyncio.py")
    assert done.returncode == 0, done.stderr
    assert "Greet Ada: succeeded, greeted as 'Greet Ada' asks" in done.stdout
    assert "Greet Grace: succeeded" in done.stdout
    assert "Greet all: cancelled" in done.stdout


# --- deployments ------------------------------------------------------------------------------------------------------


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]
    return found


def documents(kind: str) -> list[Any]:
    return some(each for each in yaml.safe_load_all(KUBERNETES.read_text("utf-8")) if each["kind"] == kind)


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
        for container in (each for each in pod["containers"] if each["image"] == IMAGE):
            yield container["args"]
            probes = [
                each["exec"]["command"] for each in container.values() if isinstance(each, dict) and "exec" in each
            ]
            yield from (arguments for program, *arguments in probes if program == "duetime")
    for unit in UNITS:
        (line,) = re.findall(r"^ExecStart=(.+)$", unit.read_text("utf-8"), flags=re.MULTILINE)
        program, *arguments = shlex.split(line)
        assert program.endswith("/duetime")
        yield arguments


def test_every_verb_and_option_that_the_examples_use_exists() -> None:
    commands = list(called())
    assert {command[0] for command in commands} == {"migrate", "serve", "worker", "workers"}
    root: Any = duetime_command()
    for verb, *rest in commands:
        command = root.commands[verb]
        command = next(iter(getattr(command, "commands", {verb: command}).values()))  # the first of a group is meant
        options = {name for each in command.loaded.params for name in each.opts}
        assert {word for word in rest if word.startswith("-")} <= options, (verb, rest)


@pytest.mark.parametrize("path", [*ENVIRONMENTS, KUBERNETES], ids=lambda path: path.name)
def test_every_setting_of_the_examples_exists_and_is_accepted(path: Path) -> None:
    given = dict(
        re.findall(r"^ *DUETIME_([A-Z_]+)[=:] ?\"?([^\"\n]+)\"?$", path.read_text("utf-8"), flags=re.MULTILINE)
    )
    assert given.pop("CONFIG", IN_FORCE) == IN_FORCE
    settings = Settings(**{name.lower(): value for name, value in given.items()})
    assert settings.distributed
    assert settings.database_url.startswith("postgresql+psycopg://")


def test_the_settings_file_is_accepted_and_every_process_of_every_example_reads_it() -> None:
    assert set(load_settings(SETTINGS_FILE).pools) == {"gpu", "openai"}
    for name, service in services().items():
        if service["image"] == "duetime":
            assert service["environment"]["DUETIME_CONFIG"] == IN_FORCE, name
            assert f"../duetime.toml:{IN_FORCE}:ro" in service["volumes"], name
    maps = {each["metadata"]["name"]: each["data"] for each in documents("ConfigMap")}
    assert maps["duetime"]["DUETIME_CONFIG"] == IN_FORCE
    assert maps["duetime-settings"]["duetime.toml"] == SETTINGS_FILE.read_text("utf-8")
    for pod in pods():
        assert {"name": "settings", "configMap": {"name": "duetime-settings"}} in pod["volumes"]
        mounted = [each["volumeMounts"] for each in pod["containers"] if each["image"] == IMAGE]
        assert mounted == [[{"name": "settings", "mountPath": "/etc/duetime", "readOnly": True}]]
    assert f"DUETIME_CONFIG={IN_FORCE}\n" in (EXAMPLES / "systemd/duetime.env.example").read_text("utf-8")


def test_the_build_of_the_image_sees_what_it_needs_and_nothing_else() -> None:
    lines = (PROJECT / ".dockerignore").read_text("utf-8").splitlines()
    first, *rules = [line for line in lines if line and not line.startswith("#")]
    kept = {rule[1:] for rule in rules if rule.startswith("!")}
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
    needed = {folder.split("/")[0] for folder in project["tool"]["setuptools"]["package-dir"].values()}
    needed |= {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    assert first == "*", "all is left out but what is named: what lies about in a checkout may be a secret"
    assert kept == needed | {"examples/plugin"}
    assert "**/*.env" in rules


def test_the_image_has_only_what_was_installed_and_a_package_with_handlers() -> None:
    build, image = re.split(
        r"^FROM (?!.* AS )", (EXAMPLES / "compose/Dockerfile").read_text("utf-8"), flags=re.MULTILINE
    )
    assert "/src/examples/plugin" in build
    assert re.findall(r"^(?:COPY|ADD) (.*)$", image, flags=re.MULTILINE) == ["--from=build /opt/duetime /opt/duetime"]
    assert "useradd --uid 1000" in image
    assert {pod["securityContext"]["runAsUser"] for pod in pods() if "securityContext" in pod} == {1000}


def test_each_container_has_its_own_passwords_only() -> None:
    own = {"duetime": "duetime.env", "postgres:18": "postgres.env", "redis:8": "redis.env", "caddy:2": "proxy.env"}
    assert {service["image"]: service["env_file"] for service in services().values()} == own
    for name in own.values():
        example = (EXAMPLES / "compose" / f"{name}.example").read_text("utf-8")
        variables = re.findall(r"^([A-Z_]+)=", example, re.MULTILINE)
        assert {variable.split("_")[0] for variable in variables} == {name.removesuffix(".env").upper()}


def test_an_image_that_nobody_has_says_that_it_is_to_be_replaced() -> None:
    images = {each["image"] for pod in pods() for each in pod["containers"]}
    assert images == {IMAGE}
    said = KUBERNETES.read_text("utf-8").split("apiVersion", 1)[0]
    assert f"`{IMAGE}`, three times" in said
    assert sum(each["image"] == IMAGE for pod in pods() for each in pod["containers"]) == 3


def test_a_server_that_hangs_is_restarted_and_one_that_ends_is_out_of_the_service_first() -> None:
    (server,) = [each for pod in pods() for each in pod["containers"] if each["args"] == ["serve"]]
    assert server["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "http"}
    assert server["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert paused(server) > 0


def test_a_unit_with_a_wrong_setting_is_not_started_for_ever_and_its_setup_is_written_down() -> None:
    steps = (EXAMPLES / "systemd" / "README.md").read_text("utf-8")
    for unit in UNITS:
        assert "\nRestartPreventExitStatus=2\n" in unit.read_text("utf-8")
    for step in ("useradd --system", "/opt/duetime/bin/duetime migrate", "systemctl enable --now", "duetime.toml"):
        assert step in steps


def paused(container: Any) -> int:
    """Return the seconds that a container waits before it is told to end."""
    command = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
    assert command[0] == "sleep"
    return int(command[1])


def test_the_servers_of_compose_ask_callers_for_a_key_themselves() -> None:
    given = environment("compose/duetime.env.example")
    settings = Settings(**{name.removeprefix("DUETIME_").lower(): value for name, value in given.items()})
    assert (settings.host, settings.auth) == ("0.0.0.0", ("keys",))
    site = environment("compose/proxy.env.example")["PROXY_SITE"]
    assert settings.host_names == (site,)
    caddy = (EXAMPLES / "compose/Caddyfile").read_text("utf-8")
    assert "auth" not in caddy
    assert "reverse_proxy server-1:8787 server-2:8787 {" in caddy


def test_only_the_port_with_tls_of_compose_is_open_to_other_machines() -> None:
    published = {name: port for name, service in services().items() for port in service.get("ports", [])}
    assert published == {"server-1": "127.0.0.1:8101:8787", "server-2": "127.0.0.1:8102:8787", "proxy": "443:443"}


def test_the_servers_of_compose_believe_their_proxy_alone_where_a_call_comes_from() -> None:
    composed = yaml.safe_load((EXAMPLES / "compose/compose.yaml").read_text("utf-8"))
    proxy = composed["services"]["proxy"]["networks"]["default"]["ipv4_address"]
    assert environment("compose/duetime.env.example")["DUETIME_TRUSTED_PROXIES"] == proxy
    (network,) = composed["networks"]["default"]["ipam"]["config"]
    assert ip_address(proxy) in ip_network(network["subnet"])
    assert ip_address(proxy) not in ip_network(network["ip_range"]), "another container could get it"


def test_the_servers_of_kubernetes_believe_the_ingress_where_a_call_comes_from() -> None:
    (given,) = [each["data"] for each in documents("ConfigMap") if each["metadata"]["name"] == "duetime"]
    said = KUBERNETES.read_text("utf-8").split("apiVersion", 1)[0]
    assert f"`{given['DUETIME_TRUSTED_PROXIES']}`: the network" in said


def environment(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Z_]+)=(.*)$", (EXAMPLES / name).read_text("utf-8"), flags=re.MULTILINE))


def test_the_servers_of_kubernetes_ask_callers_for_a_key_and_only_the_ingress_with_tls_leads_to_them() -> None:
    exposed = {port["containerPort"] for pod in pods() for each in pod["containers"] for port in each.get("ports", [])}
    assert exposed == {8787}
    (given,) = [each["data"] for each in documents("ConfigMap") if each["metadata"]["name"] == "duetime"]
    (secret,) = [each["stringData"] for each in documents("Secret")]
    named = {name.removeprefix("DUETIME_").lower(): value for name, value in (given | secret).items()}
    settings = Settings(**{name: value for name, value in named.items() if name != "config"})
    assert (settings.host, settings.port, settings.auth) == ("0.0.0.0", 8787, ("keys",))
    (ingress,) = documents("Ingress")
    hosts = {each["host"] for each in ingress["spec"]["rules"]}
    assert hosts == set(settings.host_names) == {name for each in ingress["spec"]["tls"] for name in each["hosts"]}
    assert "type" not in documents("Service")[0]["spec"], "reachable within the cluster only"


def test_processes_get_longer_to_stop_than_what_runs_has_to_end() -> None:
    grace = float(re.findall(r"GRACE_SECONDS=(\d+)", (EXAMPLES / "compose/duetime.env.example").read_text("utf-8"))[0])
    for name, service in services().items():
        if service.get("command", [""])[0] in {"serve", "worker"}:
            assert float(service["stop_grace_period"].removesuffix("s")) > grace + 10, name
    (settings,) = [each for each in documents("ConfigMap") if each["metadata"]["name"] == "duetime"]
    for deployment in documents("Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        pause = max(paused(each) for each in pod["containers"])
        assert pod["terminationGracePeriodSeconds"] > float(settings["data"]["DUETIME_GRACE_SECONDS"]) + pause + 10
        assert all(each["resources"]["limits"] for each in pod["containers"])
    for unit in UNITS:
        assert float(re.findall(r"^TimeoutStopSec=(\d+)$", unit.read_text("utf-8"), flags=re.MULTILINE)[0]) > 30


def test_no_password_of_the_examples_is_more_than_a_placeholder() -> None:
    for path in (*ENVIRONMENTS, KUBERNETES):
        passwords = re.findall(r"(?::|PASSWORD=)([^:@/\s]+)@|PASSWORD=(\S+)", path.read_text("utf-8"))
        assert {word for pair in passwords for word in pair if word} <= {"change-me", "change-me-too"}, path
