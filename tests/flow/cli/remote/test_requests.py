"""A server that did not answer, or that refused one of several requests, and the words of the verb about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import httpx2
import pytest
from duetime.server.cli.exit_codes import NOT_FOUND_CODE
from duetime.server.cli.remote import workers
from duetime.server.cli.remote.client import RemoteProblem, RemoteServer

SERVER = "https://duetime.example.com"
DRAIN = {"worker_id": None, "every": True, "now": False, "reason": None}


@pytest.mark.parametrize(
    ("method", "error", "perhaps_done"),
    [
        ("POST", httpx2.ReadTimeout("timed out"), True),
        ("DELETE", httpx2.RemoteProtocolError("closed"), True),
        ("POST", httpx2.ConnectError("refused"), False),
        ("GET", httpx2.ReadTimeout("timed out"), False),
    ],
)
def test_a_change_without_an_answer_may_have_been_made_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, method: str, error: Exception, *, perhaps_done: bool
) -> None:
    def unanswered(*_: Any, **__: Any) -> NoReturn:
        raise error

    monkeypatch.setattr(httpx2, "request", unanswered)
    with pytest.raises(RemoteProblem, match=f"does not answer as a Duetime server: {error}") as found:
        RemoteServer(SERVER).send(method, "/tasks", {})
    assert ("It may have done what was asked" in str(found.value)) is perhaps_done


class OfWorkers(RemoteServer):
    """A server of two workers, of which one ends before it is asked."""

    def get(self, path: str, **query: Any) -> dict[str, Any]:  # noqa: ARG002 - the signature of the client
        return {"workers": [{"id": each, "state": "alive"} for each in ("w1", "w2")]}

    def post(self, path: str, body: Mapping[str, Any], **headers: str | None) -> dict[str, Any]:  # noqa: ARG002 - as above
        if path.startswith("/workers/w1/"):
            raise RemoteProblem("no worker 'w1'.", NOT_FOUND_CODE)
        return {}


def test_all_workers_are_drained_although_one_has_ended(capsys: pytest.CaptureFixture[str]) -> None:
    workers.drain(OfWorkers(SERVER), DRAIN)
    assert "Draining within 5 s: w2." in capsys.readouterr().out
