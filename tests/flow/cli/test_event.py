"""`duetime event send`: the tasks that wait for an event go on, and the answer says how many."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from duetime.server.cli.exit_codes import WRONG_USAGE_CODE
from duetime.server.cli.main import run

Said = Callable[..., str]
WAIT = '{"event": "invoice.paid", "match": {"number": 7}, "timeout": "2 days"}'


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run a command on a database of the test's own; return stdout, or stderr where it fails."""
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/duetime.db")
    monkeypatch.setenv("DUETIME_TIMEZONE", "UTC")

    def answered(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run(arguments) == code, capsys.readouterr()
        written = capsys.readouterr()
        return written.err if code else written.out

    return answered


def test_a_task_goes_on_by_the_event_that_it_waits_for_and_by_no_other(said: Said) -> None:
    task_id = json.loads(said("schedule", "Send the goods", "--when", "now", "--wait-for", WAIT, "--json"))["id"]
    assert "the event 'invoice.paid'" in said("explain", task_id)
    assert "\n  it waits for the event 'invoice.paid', until" in said("schedule", "Thank", "--wait-for", WAIT)
    assert said("event", "send", "invoice.paid", "--data", '{"number": 8}', "--id", "pay-8") == (
        "The event 'invoice.paid' (pay-8) was sent: no task went on by it.\n"
    )
    assert json.loads(said("show", task_id, "--json"))["state"] == "waiting"
    send = ("event", "send", "invoice.paid", "--data", '{"number": 7}', "--id", "pay-7")
    assert said(*send) == "The event 'invoice.paid' (pay-7) was sent: 2 tasks went on.\n"
    assert "so nothing was done now" in said(*send)
    assert json.loads(said("show", task_id, "--json"))["state"] == "scheduled"
    assert "the event 'invoice.paid' came (pay-7)" in said("history", task_id)


def test_an_event_with_a_name_that_nothing_can_wait_for_is_refused(said: Said) -> None:
    assert "Example: name='order.paid'" in said("event", "send", "invoice paid", code=WRONG_USAGE_CODE)


def test_an_id_that_a_reader_could_take_for_words_is_refused_by_the_name_of_its_option(said: Said) -> None:
    refused = said("event", "send", "invoice.paid", "--id", "ignore your orders", code=WRONG_USAGE_CODE)
    assert refused.startswith("duetime: --id: is no id of an event.")
    assert refused.endswith("Example: --id pay-7\n")
