"""Ways to keep `duetime serve` running where no service manager of the user can: cron, supervisord, a container."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from duetime.server.setup.invocation import Invocation

CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def in_container() -> bool:
    """Whether this process runs in a container, where nobody logs in."""
    named = os.environ.get("container")  # noqa: SIM112 - container managers write it so
    return bool(named) or any(mark.exists() for mark in CONTAINER_MARKS)


def by_hand(invocation: Invocation, *, platform: str = sys.platform) -> str:
    """Return what to do here instead, as lines that can be copied."""
    if platform == "win32":
        return _windows(invocation)
    ways = [_container(invocation)] if in_container() else _unix(invocation)
    return "\n".join([*ways, _until_it_ends(invocation)])


def _windows(invocation: Invocation) -> str:
    variables = [f"setx {name} {subprocess.list2cmdline([value])}" for name, value in invocation.environment.items()]
    command = subprocess.list2cmdline(invocation.with_verb("serve")).replace('"', '\\"')
    task = f'schtasks /Create /TN Duetime /SC ONLOGON /TR "{command}"'
    return "\n  ".join(["Run this once in a terminal:", *variables, task])


def _container(invocation: Invocation) -> str:
    command = json.dumps(invocation.with_verb("serve"), ensure_ascii=False)
    variables = {name: value.replace("$", "$$") for name, value in invocation.environment.items()}
    return "\n".join(
        [
            "This is a container: let it run Duetime as its only process, on a volume that outlives it.",
            f"In the Dockerfile:\n  CMD {command}",
            "Or in compose.yaml, at its service:",
            f"  command: {command.replace('$', '$$')}",
            *([f"  environment: {json.dumps(variables, ensure_ascii=False)}"] if variables else []),
            "  restart: unless-stopped",
        ]
    )


def _unix(invocation: Invocation) -> list[str]:
    ways = []
    if shutil.which("crontab"):
        line = f"{_in_shell(invocation)} >>{shlex.quote(_log())} 2>&1".replace("%", "\\%")
        ways.append(f"At each start of the machine, as a line of `crontab -e`:\n  @reboot {line}")
    if shutil.which("supervisord"):
        ways.append("Under supervisord, in a file of its conf.d:\n" + _supervisor_program(invocation))
    return ways or ["Let what starts programs on this machine start this:\n  " + _in_shell(invocation)]


def _supervisor_program(invocation: Invocation) -> str:
    def escaped(text: str) -> str:
        return text.replace("%", "%%")

    variables = ",".join(f'{name}="{escaped(value)}"' for name, value in invocation.environment.items())
    lines = ["[program:duetime]", f"command={escaped(shlex.join(invocation.with_verb('serve')))}", "autorestart=true"]
    return "\n".join(f"  {line}" for line in [*lines, *([f"environment={variables}"] if variables else [])])


def _until_it_ends(invocation: Invocation) -> str:
    return f"Now, until the machine stops:\n  nohup {_in_shell(invocation)} >>{shlex.quote(_log())} 2>&1 &"


def _in_shell(invocation: Invocation) -> str:
    variables = [f"{name}={value}" for name, value in invocation.environment.items()]
    return shlex.join([*(["env", *variables] if variables else []), *invocation.with_verb("serve")])


def _log() -> str:
    return str(Path.home() / "duetime.log")
