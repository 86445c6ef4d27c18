"""A server that did not answer, or that refused one of several requests, and the words of the verb about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import httpx2
import pytest
from duetime.server.cli.exit_codes import NOT_FOUND_CODE, REFUSED_CODE
from duetime.server.cli.remote import administration, workers
from duetime.server.cli.remote.client import RemoteProblem, RemoteServer

SERVER = "https://duetime.example.com"
DRAIN = {"worker_id": None, "every": True, "now": False, "reason": None}


@pytest.mark.parametrize(
    ("method", "error", "perhaps_done"),
    [
        ("POST", httpx2.ReadTimeout("timed out"), True),
        ("DELETE", httpx2.RemoteProtocolError("closed"), True),
        ("POST", httpx2.ConnectError("refused"), False),
        ("POST", httpx2.PoolTimeout("no connection is free"), False),
        ("POST", httpx2.ProxyError("407 Proxy Authentication Required"), False),
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


@pytest.mark.parametrize(
    ("method", "status", "perhaps_done"),
    [("POST", 404, False), ("POST", 413, False), ("POST", 502, True), ("POST", 200, True), ("GET", 502, False)],
)
def test_a_refusal_that_is_no_json_did_nothing(
    monkeypatch: pytest.MonkeyPatch, method: str, status: int, *, perhaps_done: bool
) -> None:
    monkeypatch.setattr(httpx2, "request", lambda *_, **__: httpx2.Response(status, text="<html>nginx</html>"))
    with pytest.raises(RemoteProblem, match="does not answer as a Duetime server: ") as found:
        RemoteServer(SERVER).send(method, "/tasks", {})
    assert ("It may have done what was asked" in str(found.value)) is perhaps_done


def test_a_problem_of_one_request_that_is_over_at_the_last_one_is_none_of_the_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = {"schema": "duetime.retention_run/1", "rows": {}, "longest_batch_seconds": 0.1, "dry_run": False}
    stopped = {**done, "problems": {"events": "the disk is full"}, "complete": False}
    answers = iter([stopped, {**done, "complete": True}])
    monkeypatch.setattr(RemoteServer, "get", lambda *_, **__: {"rules": [{"what": "events"}]})
    monkeypatch.setattr(RemoteServer, "post", lambda *_, **__: next(answers))
    params = {"only": None, "dry_run": False, "reason": None, "as_json": True}
    administration.retention_run(RemoteServer(SERVER), params)
    assert "the disk is full" not in capsys.readouterr().out


def test_a_run_of_several_requests_says_what_it_deleted_before_one_was_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = {"rows": {"events": {"events": 500}}, "longest_batch_seconds": 0.1, "dry_run": False, "complete": False}
    answers = iter([done])

    def refused_at_last(*_: Any, **__: Any) -> dict[str, Any]:
        if (answer := next(answers, None)) is None:
            raise RemoteProblem("Another process deletes by these rules at the moment.", REFUSED_CODE)
        return answer

    monkeypatch.setattr(RemoteServer, "get", lambda *_, **__: {"rules": [{"what": "events"}]})
    monkeypatch.setattr(RemoteServer, "post", refused_at_last)
    params = {"only": None, "dry_run": False, "reason": None, "as_json": False}
    with pytest.raises(RemoteProblem, match="Another process"):
        administration.retention_run(RemoteServer(SERVER), params)
    assert capsys.readouterr().out.splitlines()[1].split() == ["events", "events", "500"]


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
