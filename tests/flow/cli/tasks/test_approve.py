"""`duetime approve` and `duetime reject` of a recurring task: what they print, and how they end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from duetime.scheduler.store import open_store
from duetime.server.cli.exit_codes import WRONG_USAGE_CODE

from tests.flow.cli.tasks.test_tasks import Run, cli, scheduled

__all__ = ["cli"]


@pytest.fixture
def task_id(cli: Run) -> str:
    given = ("--repeat", "every day at 9:00", "--approval", "Pay the wages?", "--approval", "by=2 hours")
    return str(scheduled(cli, "Payroll", *given)["id"])


def due(cli: Run, tmp_path: Path, task_id: str) -> None:
    """Move the next run to now, and look for due runs as a dispatcher does."""
    assert cli("reschedule", task_id, "--when", "now").code == 0
    store = open_store(f"sqlite:///{tmp_path}/duetime.db")
    assert store.claims.make_ready(limit=9) == []
    store.close()


def test_show_says_what_is_asked_before_each_run(cli: Run, task_id: str) -> None:
    shown = cli("show", task_id).out
    assert re.search(r"^asks first +Pay the wages\? \(for 2 h, else it is skipped\)$", shown, re.MULTILINE), shown
    assert cli("approve", task_id).code != 0, "nothing is asked yet"


def test_a_yes_lets_this_run_go(cli: Run, tmp_path: Path, task_id: str) -> None:
    due(cli, tmp_path, task_id)
    assert "approval of «Pay the wages?» by the user until" in cli("explain", task_id).out
    approved = cli("approve", task_id)
    assert (approved.code, approved.out[:8]) == (0, "Approved")
    assert "scheduled" in cli("show", task_id).out


def test_a_run_that_waits_for_an_event_as_well_shows_both_and_then_what_is_left(cli: Run, tmp_path: Path) -> None:
    given = ("--repeat", "every day at 9:00", "--approval", "Pay?", "--wait-for", "ready")
    made = cli("schedule", "Payroll", *given)
    assert "\n  asks before each run: Pay?\n" in made.out
    assert "note: each run waits for the event 'ready', for 30 d at most, then it expires" in made.out
    task_id = re.findall(r"t_[0-9a-z]+", made.out)[0]
    due(cli, tmp_path, task_id)
    for said in (cli("explain", task_id).out, cli("show", task_id).out):
        assert "approval of «Pay?» by the user" in said
        assert "the event 'ready', until" in said
    assert cli("approve", task_id).code == 0
    explained = cli("explain", task_id).out
    assert ("approval" in explained, "the event 'ready'" in explained) == (False, True)
    assert cli("event", "send", "ready").out.endswith(
        "It released 1 task, which starts when due (unless paused). An event cannot be taken back.\n"
    )
    assert re.search(r"wait_began.*\n(.*\n)*.*created", cli("history", task_id).out)
    assert "scheduled" in cli("show", task_id).out


def test_a_no_skips_this_run_and_names_what_asks_again(cli: Run, tmp_path: Path, task_id: str) -> None:
    due(cli, tmp_path, task_id)
    rejected = cli("reject", task_id, "--reason", "no money")
    assert rejected.code == 0
    assert "this occurrence was skipped; the series goes on" in rejected.out
    [token] = re.findall(r"u_[0-9]+", rejected.out)
    assert cli("undo", task_id, token).code == 0
    assert "waiting" in cli("show", task_id).out
    assert re.search(r"rejected .*no money", cli("history", task_id).out)


def test_a_chain_that_repeats_is_answered_by_its_id(cli: Run, tmp_path: Path) -> None:
    steps = tmp_path / "chain.json"
    steps.write_text('[{"name": "fetch"}, {"name": "mail", "after": ["fetch"]}]')
    given = ("--repeat", "every day at 9:00", "--approval", "Mail it?", "--steps", str(steps))
    chain_id = str(scheduled(cli, "Report", *given)["id"])
    assert re.search(r"^asks first +Mail it\?$", cli("show", chain_id).out, re.MULTILINE)
    due(cli, tmp_path, chain_id)
    assert "fetch: approval of «Mail it?» by the user" in cli("explain", chain_id).out
    rejected = cli("reject", chain_id)
    assert (rejected.code, "was skipped, which cannot be undone" in " ".join(rejected.out.split())) == (0, True)
    due(cli, tmp_path, chain_id)
    assert (cli("approve", chain_id).code, "scheduled" in cli("show", chain_id).out) == (0, True)


def test_an_end_that_is_no_length_of_time_is_refused_with_what_can_be_typed(cli: Run) -> None:
    given = ("--repeat", "every day at 9:00", "--approval", "Pay?", "--approval", "by=17:00")
    refused = cli("schedule", "Payroll", *given)
    assert refused.code == WRONG_USAGE_CODE
    assert refused.err.endswith("Example: --approval 'Pay?' --approval 'by=8 h'\n"), refused.err
    assert cli("schedule", "Payroll", *given[:4], "--approval", "by=2 hours").code == 0


def test_a_task_that_asks_says_so_when_it_is_scheduled(cli: Run) -> None:
    given = ("--repeat", "every day at 9:00", "--approval", "Pay?", "--approval", "by=2 hours")
    for more in ((), ("--dry-run",)):
        said = cli("schedule", "Payroll", *given, *more).out
        assert "\n  asks before each run: Pay? (for 2 h, else it is skipped)\n" in said


def test_a_paused_task_that_waits_says_both_and_explain_says_paused(cli: Run) -> None:
    asking = scheduled(cli, "Pay once", "--when", "in 1 hour", "--approval", "Pay?")["id"]
    plain = scheduled(cli, "Call", "--when", "in 1 hour")["id"]
    for task_id, state in ((asking, "waiting, paused until"), (plain, "paused until")):
        assert cli("reschedule", task_id, "--pause-until", "in 3 hours").code == 0
        assert re.search(rf"^state +{state} ", cli("show", task_id).out, re.MULTILINE)
        assert f" {state} " in cli("list").out
    assert cli("explain", plain).out.startswith("Call: paused\n")


def test_a_dry_run_under_a_key_that_stands_says_so_and_is_refused_as_the_call_would_be(cli: Run) -> None:
    given = ("--key", "k1", "--when", "tomorrow 9am")
    scheduled(cli, "Sync", *given)
    assert "note: this repeats an earlier call" in cli("schedule", "Sync", *given, "--dry-run").out
    assert "was used before" in cli("schedule", "Other", *given, "--dry-run").err
