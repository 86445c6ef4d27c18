"""Answers of a server of an earlier release, during a rolling upgrade, are shown without what they lack."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pytest
from duetime.server.cli.access.audit import show_verdicts
from duetime.server.cli.remote.administration import retention_status, secrets_rotate
from duetime.server.cli.remote.client import RemoteServer
from typer import Exit


class OlderServer(RemoteServer):
    """A server that answers without the members that are new in this release."""

    def get(self, path: str, **query: Any) -> dict[str, Any]:  # noqa: ARG002 - the signature of the client
        return {"schema": "duetime.retention/1", "rules": [], "sweeps": []}

    def post(self, path: str, body: Mapping[str, Any], **headers: str | None) -> dict[str, Any]:  # noqa: ARG002 - as above
        return {"schema": "duetime.secrets_rotated/1", "encrypted": 2, "unreadable": []}


@pytest.fixture
def older() -> OlderServer:
    return OlderServer("https://duetime.example.com", None)


def test_a_rotation_without_the_report_of_workers_ends_well(
    older: OlderServer, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets_rotate(older, {"reason": None})
    assert capsys.readouterr().out == "2 secrets encrypted by the first key.\n"


def test_rules_of_retention_without_former_ones_are_shown(
    older: OlderServer, capsys: pytest.CaptureFixture[str]
) -> None:
    retention_status(older, {"as_json": False})
    assert "There is no rule of retention" in capsys.readouterr().out


@pytest.mark.parametrize("broken", [{}, {"broken": {"entry": 7, "wrong": "its row was changed"}}])
def test_a_chain_of_a_server_that_reports_no_removals_is_shown(
    capsys: pytest.CaptureFixture[str], broken: dict[str, Any]
) -> None:
    chain = {"tenant": "acme", "entries": 9, "checked": 9, "removed": 2, "unkeyed": 0, "pending": 0, **broken}
    with pytest.raises(Exit) if broken else nullcontext():
        show_verdicts({"chains": [chain]}, 1.0, as_json=False)
    first = capsys.readouterr().out.splitlines()[0]
    assert first == (
        "acme: BROKEN at entry 7: its row was changed." if broken else "acme: 9 entries hold, 2 deleted by retention."
    )
