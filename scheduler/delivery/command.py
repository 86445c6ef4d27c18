"""Delivers outcomes to a program of this machine, which the settings name."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence

from duetime.scheduler.delivery.channel import ChannelError
from duetime.scheduler.delivery.message_json import message_json
from duetime.scheduler.runtime.process_group import OWN_GROUP, end_in_words, kill_group
from duetime.scheduler.task import InboxMessage

OWN_SETTINGS = "DUETIME_"


class CommandChannel:
    """Runs the program once for each outcome, with what a webhook gets as JSON on its standard input.

    Its arguments are those of the settings alone: nothing that a task says becomes a part of them. Its environment
    lacks the settings of Duetime, which hold secrets. It has delivered when it ends with 0, and is killed with all that
    it started when its time is over.
    """

    def __init__(self, name: str, command: Sequence[str], *, timeout: float = 20.0) -> None:
        self.name = name
        self._command = list(command)
        self._timeout = timeout

    def send(self, message: InboxMessage, *, key: str) -> None:
        """Run the program; raises `ChannelError` when it cannot be started, fails or takes too long."""
        body = json.dumps({**message_json(message), "idempotency_key": f"{key}-outcome"}, ensure_ascii=False).encode()
        try:
            process = subprocess.Popen(  # nosec B603 # noqa: S603 - the settings name the program
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,  # of a server over stdio it is the wire
                env={name: value for name, value in os.environ.items() if not name.startswith(OWN_SETTINGS)},
                **OWN_GROUP,
            )
        except OSError as error:
            raise ChannelError(f"the command of {self.name} cannot be started ({error.strerror})") from None
        with process:
            self._judge(self._ended(process, body))

    def _ended(self, process: subprocess.Popen[bytes], body: bytes) -> int:
        try:
            process.communicate(body, self._timeout)
        except subprocess.TimeoutExpired:
            raise ChannelError(f"the command took longer than {self._timeout:g} s") from None
        finally:
            if process.returncode is None:
                kill_group(process)
        return int(process.returncode)

    def _judge(self, code: int) -> None:
        if code:
            raise ChannelError(f"the command {end_in_words(code)}")

    def close(self) -> None:
        """Nothing to do: no process outlives a send."""
