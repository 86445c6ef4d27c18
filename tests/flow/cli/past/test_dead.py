"""`duetime dead`: dead letters are listed, shown, replayed and discarded."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.history import dead_letters as history_letters
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.dead_letters import selection as store_letters
from duetime.scheduler.task import State
from duetime.server.cli.exit_codes import NOT_FOUND_CODE, REFUSED_CODE, WRONG_USAGE_CODE
from duetime.server.cli.main import run

from tests.builders import settlement, started

Said = Callable[..., str]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run a command on a database of the test's own; return stdout, or stderr where it fails."""
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/duetime.db")
    monkeypatch.setenv("DUETIME_CONFIG", f"{tmp_path}/duetime.toml")
    (tmp_path / "duetime.toml").write_text('timezone = "UTC"\n')

    def answered(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run(arguments) == code, capsys.readouterr()
        written = capsys.readouterr()
        return written.err if code else written.out

    return answered


def dead(store: Store, title: str, **values: Any) -> str:
    claim = started(store, store.now(), title=title, tenant="local", **values)
    store.claims.settle([settlement(claim, State.FAILED, reason="502 Bad Gateway", dead_letter=True)])
    return claim.run.id


@pytest.fixture
def letters(tmp_path: Path) -> list[str]:
    store = open_store(f"sqlite:///{tmp_path}/duetime.db")
    found = [dead(store, "Push to the CRM", action="reminder"), dead(store, "Nightly import", labels=("reports",))]
    store.close()
    return found


def test_dead_letters_are_listed_and_shown_with_every_attempt(said: Said, letters: list[str]) -> None:
    crm, nightly = letters
    rows = said("dead").splitlines()
    assert {row.split()[-1] for row in rows[1:]} == {crm, nightly}
    assert "502 Bad Gateway" in rows[1]
    [row] = csv.DictReader(io.StringIO(said("dead", "list", "--label", "reports", "--csv")))
    assert (row["run_id"], row["title"], row["attempts"], row["state"]) == (nightly, "Nightly import", "1", "open")
    shown = json.loads(said("dead", "show", crm, "--json"))
    assert (shown["payload"]["message"], len(shown["attempts"])) == ("Call John", 1)
    assert "502 Bad Gateway" in said("dead", "show", crm)
    assert said("dead", "show", "r_7k3m9qx2w4hb00000000", code=NOT_FOUND_CODE).endswith("'r_7k3m9qx2w4hb00000000'.\n")
    assert "The id of a run starts with r_" in said("dead", "replay", "t_7k3m9qx2w4hb", code=NOT_FOUND_CODE)


def test_a_replay_is_counted_first_and_says_which_runs_it_made(said: Said, letters: list[str]) -> None:
    assert said("dead", "replay", "--all", "--dry-run") == "2 match; 2 would be replayed.\n"
    assert said("dead", "discard", "--all", "--dry-run", "--max", "1") == (
        "2 match; 1 would be discarded.\n1 is left: repeat the command, or give a higher --max.\n"
    )
    assert "reason" in said("dead", "replay", "--all", code=WRONG_USAGE_CODE)
    assert "--all" in said("dead", "replay", code=WRONG_USAGE_CODE)
    done = json.loads(said("dead", "replay", "--all", "--reason", "CRM is back", "--max", "1", "--json"))
    assert ([each["run_id"] for each in done["closed"]], done["left"]) == ([letters[0]], 1)
    assert "replayed already" in said("dead", "replay", letters[0], code=REFUSED_CODE)
    [entry] = json.loads(said("audit", "list", "--json"))["entries"]
    assert (entry["kind"], entry["subject"], entry["reason"]) == ("dead_letter_replayed", letters[0], "CRM is back")
    assert "is replayed as r_" in said("dead", "replay", letters[1])
    assert said("dead") == "No dead letters.\n"
    assert said("dead", "replay", *letters, "--dry-run").startswith("2 match; 0 would be replayed.\n")
    said("dead", "replay", *letters, code=REFUSED_CODE)


def test_more_letters_than_are_counted_are_said_to_be_at_least_so_many(
    said: Said, letters: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (store_letters, history_letters):
        monkeypatch.setattr(module, "MAX_LETTERS_COUNTED", 1)
    assert said("dead", "replay", "--all", "--dry-run") == "1+ match; 2 would be replayed.\n"
    assert json.loads(said("dead", "replay", "--all", "--dry-run", "--json"))["at_least"] is True


def test_a_discard_needs_a_reason_and_stays_in_the_list_of_its_state(said: Said, letters: list[str]) -> None:
    assert "reason" in said("dead", "discard", letters[0], code=WRONG_USAGE_CODE)
    discarded = said("dead", "discard", letters[0], "--reason", "sent by hand")
    assert discarded.startswith("1 of 1 discarded.\nFor 10 minutes: duetime dead undo u_b")
    [row] = json.loads(said("dead", "list", "--state", "discarded", "--json"))["dead_letters"]
    assert (row["run_id"], row["state"]) == (letters[0], "discarded")
    assert "Discarded" in said("dead", "show", letters[0])
    token = discarded.split()[-1]
    assert "Took back the change of 1 task." in said("dead", "undo", token)
    assert "The same call did this already. Took back the change of 1 task." in said("dead", "undo", token)
    assert "taken back already" in said("dead", "undo", token, "--key", "mine", code=REFUSED_CODE)
    assert json.loads(said("dead", "show", letters[0], "--json"))["state"] == "open"


def test_a_payload_that_was_wrong_is_replaced_by_the_replay_of_its_run(said: Said, letters: list[str]) -> None:
    crm, nightly = letters
    task_id = json.loads(said("dead", "show", crm, "--json"))["task_id"]
    better = '{"message": "Call Ann"}'
    assert "payload: it replaces the payload of one run" in said(
        "dead", "replay", crm, nightly, "--payload", better, code=WRONG_USAGE_CODE
    )
    assert "payload" in said("dead", "replay", crm, "--payload", '{"massage": "x"}', code=WRONG_USAGE_CODE)
    assert json.loads(said("dead", "show", crm, "--json"))["state"] == "open"
    said("dead", "replay", crm, "--payload", better)
    assert json.loads(said("show", task_id, "--json"))["message"] == "Call Ann"
    [changed] = [each for each in json.loads(said("history", task_id, "--json"))["events"] if each["kind"] == "run_now"]
    assert "Call Ann" in json.dumps(changed)
