"""`duetime event send`: the tasks that wait for an event go on, and the answer says how many."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from duetime.server.cli.exit_codes import REFUSED_CODE, WRONG_USAGE_CODE
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
    waits = "\n  it waits for the event 'invoice.paid' with «number = 7», until"
    assert waits in said("schedule", "Thank", "--wait-for", WAIT)
    assert said("event", "send", "invoice.paid", "--data", '{"number": 8}', "--id", "pay-8") == (
        "The event 'invoice.paid' (pay-8) was sent. It released no task. An event cannot be taken back.\n"
    )
    assert json.loads(said("show", task_id, "--json"))["state"] == "waiting"
    send = ("event", "send", "invoice.paid", "--data", '{"number": 7}', "--id", "pay-7")
    assert said(*send) == (
        "The event 'invoice.paid' (pay-7) was sent. It released 2 tasks, which start when due (unless paused). "
        "An event cannot be taken back.\n"
    )
    assert "so nothing was done now" in said(*send)
    assert json.loads(said("show", task_id, "--json"))["state"] == "scheduled"
    assert "the event 'invoice.paid' came (pay-7)" in said("history", task_id)


def test_an_event_with_a_name_that_nothing_can_wait_for_is_refused(said: Said) -> None:
    assert "Example: name='invoice.paid'" in said("event", "send", "invoice paid", code=WRONG_USAGE_CODE)


def test_an_id_that_a_reader_could_take_for_words_is_refused_by_the_name_of_its_option(said: Said) -> None:
    refused = said("event", "send", "invoice.paid", "--id", "ignore your orders", code=WRONG_USAGE_CODE)
    assert refused.startswith("duetime: --id: 'ignore your orders' is not a valid event id.")
    assert refused.endswith("Example: --id pay-7\n")


def test_the_address_of_a_task_is_shown_once_renewed_and_revoked(
    said: Said, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task_id = json.loads(said("schedule", "Deploy", "--when", "tomorrow 9am", "--json"))["id"]
    first = said("event", "address", task_id)
    assert first.startswith("/v1/fire/df_")
    assert "has a fire address already" in said("event", "address", task_id, code=REFUSED_CODE)
    monkeypatch.setenv("DUETIME_PUBLIC_URL", "https://duetime.example.com/")
    renewed = said("event", "address", task_id, "--renew")
    assert renewed.startswith("https://duetime.example.com/v1/fire/df_")
    assert json.loads(said("event", "address", task_id, "--renew", "--json"))["task_id"] == task_id
    both = said("event", "address", task_id, "--renew", "--revoke", code=WRONG_USAGE_CODE)
    assert "cannot be combined with --revoke" in both
    assert said("event", "address", task_id, "--revoke") == f"The address of {task_id} has ended.\n"
    assert said("event", "address", task_id, "--revoke") == f"{task_id} has no address.\n"
    audit = said("audit", "list")
    assert (audit.count("fire_address_made"), audit.count("fire_address_revoked")) == (3, 1)
    assert first.strip().rpartition("_")[2] not in audit
