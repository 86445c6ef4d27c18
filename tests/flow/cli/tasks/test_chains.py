"""Chains on the command line: in lists, by their titles, without an address, and what a recurring one leaves out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.calls.bulk_change import BULK_UNDO_WINDOW
from duetime.scheduler.views import UNDO_WINDOW
from duetime.server.cli import tasks
from duetime.server.cli.exit_codes import REFUSED_CODE, WRONG_USAGE_CODE

from tests.flow.cli.tasks.test_tasks import Run, cli

__all__ = ["cli"]

STEPS = [{"name": "fetch"}, {"name": "send", "after": ["fetch"]}]


@pytest.fixture
def steps(tmp_path: Path) -> str:
    path = tmp_path / "steps.json"
    path.write_text(json.dumps(STEPS), "utf-8")
    return str(path)


def made(cli: Run, steps: str, title: str = "Monday report", *more: str) -> dict[str, Any]:
    ended = cli("schedule", title, "--when", "in 1 hour", "--steps", steps, *more, "--json")
    assert ended.code == 0, ended.err
    return dict(ended.json)


def test_a_list_has_a_row_for_each_chain_with_its_progress(cli: Run, steps: str) -> None:
    chain = made(cli, steps)
    assert cli("schedule", "Call John", "--when", "in 2 hours").code == 0
    lines = cli("list").out.splitlines()
    [row] = [line for line in lines if line.startswith(chain["id"])]
    assert re.search(r"scheduled +Monday report +0 of 2 steps done", row), row
    first, *ids = [line.split()[0] for line in lines[1:4]]
    assert (first, set(ids)) == (chain["id"], {step["id"] for step in chain["chain"]["steps"]}), "it is above its steps"


def test_a_list_says_for_which_step_another_one_waits_and_not_when_that_was_due(cli: Run, steps: str) -> None:
    chain = made(cli, steps)
    [row] = [line for line in cli("list").out.splitlines() if line.startswith(chain["chain"]["steps"][1]["id"])]
    assert re.search(r" waiting +Monday report: send +waits for step fetch", row), row
    assert " in 1 h" not in row


def test_a_list_as_json_and_csv_names_the_chain_of_each_step(cli: Run, steps: str) -> None:
    made(cli, steps)
    rows = cli("list", "--json").json["tasks"]
    assert {(row["chain"], row["step"]) for row in rows} == {("Monday report", "fetch"), ("Monday report", "send")}
    head, *lines = cli("list", "--csv").out.splitlines()
    assert "chain,step" in head
    assert ["Monday report," in row for row in lines] == [True, True]


@pytest.mark.parametrize("said", ["Monday report", "MONDAY REPORT"])
def test_a_chain_is_found_by_its_title_as_a_task_is(cli: Run, steps: str, said: str) -> None:
    chain = made(cli, steps)
    shown = cli("show", said)
    assert (shown.code, chain["id"] in shown.out) == (0, True), shown.err
    assert cli("show", chain["id"][:8]).code == 0
    assert cli("cancel", said).code == 0


def test_a_title_of_a_chain_and_of_a_task_may_be_either(cli: Run, steps: str) -> None:
    chain = made(cli, steps)
    assert cli("schedule", "Monday report", "--when", "in 2 hours").code == 0
    refused = cli("show", "Monday report")
    assert refused.code == WRONG_USAGE_CODE
    assert chain["id"] in refused.err


@pytest.mark.parametrize("option", ["--renew", "--revoke"])
def test_a_chain_has_no_address_and_its_first_step_may_have_one(cli: Run, steps: str, option: str) -> None:
    chain = made(cli, steps)
    refused = cli("event", "address", chain["id"], option)
    assert refused.code == REFUSED_CODE
    first = chain["chain"]["steps"][0]["id"]
    assert f"{chain['id']} is a chain, which has no address; its steps have: fetch ({first})" in refused.err
    assert cli("event", "address", first).code == 0


def test_a_recurring_chain_shows_what_it_leaves_out(cli: Run, steps: str) -> None:
    given = ("--repeat", "every day at 9:00", "--repeat-policy", "except=2031-05-01,2031-05-02")
    ended = cli("schedule", "Report", "--steps", steps, *given, "--json")
    assert ended.code == 0, ended.err
    assert ended.json["repeat"]["policy"] == {"except": ["2031-05-01", "2031-05-02"]}
    shown = cli("show", ended.json["id"]).out
    assert re.search(r"^policy +except 2031-05-01 2031-05-02$", shown, re.MULTILINE), shown


def test_generations_at_once_may_ask_each_its_own_question(cli: Run, steps: str) -> None:
    given = ("--repeat", "every day at 9:00", "--repeat-policy", "overlap=allow_all")
    assert cli("schedule", "Report", "--steps", steps, *given, "--json").json["repeat"]["policy"] == {
        "overlap": "allow_all"
    }
    asking = cli("schedule", "Report", "--steps", steps, *given, "--approval", "Go on?", "--approval", "by=1 hour")
    assert asking.code == 0, asking.err


def test_problems_in_several_steps_are_each_reported_by_the_place_in_the_file(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    wrong = [{"name": "fetch", "when": "someday"}, {"name": "send", "priority": "huge", "needs": {"gpu": 1}}]
    path.write_text(json.dumps(wrong), "utf-8")
    refused = cli("schedule", "Report", "--when", "in 1 hour", "--steps", str(path))
    assert refused.code == WRONG_USAGE_CODE
    examples = [line.partition("Example: ")[2] for line in refused.err.splitlines()]
    assert examples == ['"when": "in 1 hour"', '"priority": "normal"', '"needs": {"key:customer-42": 1}']
    assert cli("list", "--json").json["tasks"] == [], "nothing is half stored"


def test_an_argument_that_each_step_has_is_refused_with_a_file_that_has_it(cli: Run, steps: str) -> None:
    refused = cli("schedule", "Report", "--when", "in 1 hour", "--steps", steps, "--payload", '{"message": "x"}')
    assert refused.code == WRONG_USAGE_CODE
    example = '--steps chain.json, a file with [{"name": "fetch", "payload": {"message": "x"}}'
    assert f"Example: {example}" in refused.err


def test_a_second_file_of_steps_is_refused_and_not_taken_in_place_of_the_first(cli: Run, steps: str) -> None:
    refused = cli("schedule", "Report", "--when", "in 1 hour", "--steps", steps, "--steps", steps)
    assert refused.code == WRONG_USAGE_CODE
    assert refused.err.startswith("duetime: --steps: it is given 2 times."), refused.err


def test_a_no_to_a_chain_names_an_undo_that_works_and_how_long(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "steps.json"
    asks = {"approval": "Start?"}
    path.write_text(json.dumps([{"name": "a", **asks}, {"name": "b", **asks}]), "utf-8")
    chain = made(cli, str(path))
    rejected = cli("reject", chain["id"])
    [token] = re.findall(rf"undo within 30 s: duetime undo {chain['id']} (u_\w+)", rejected.out)
    refused = cli("undo", chain["id"])
    assert (refused.code, "an undo of a chain takes the token" in refused.err) == (WRONG_USAGE_CODE, True), refused.err
    assert cli("undo", chain["id"], token).code == 0
    assert re.search("^state +waiting$", cli("show", chain["id"]).out, re.MULTILINE)
    cancelled = cli("cancel", chain["id"])
    assert re.search(rf"undo within 10 min: duetime undo {chain['id']} u_b", cancelled.out), cancelled.out


def test_a_task_comes_after_a_whole_chain_and_gets_other_edges_later(cli: Run, steps: str) -> None:
    chain = made(cli, steps)
    mail = cli("schedule", "Mail it", "--when", "in 1 hour", "--json").json
    changed = cli("reschedule", mail["id"], "--after", chain["id"], "--after-failure", "run_anyway")
    assert (changed.code, cli("show", mail["id"], "--json").json["state"]) == (0, "waiting"), changed.err
    cycle = cli("reschedule", chain["chain"]["steps"][0]["id"], "--after", mail["id"])
    assert (cycle.code, "would come after itself" in cycle.err) == (WRONG_USAGE_CODE, True)
    assert cli("reschedule", mail["id"], "--remove", "after", "--wait-for", "paid").code == 0
    assert cli("event", "send", "paid").code == 0
    assert cli("show", mail["id"], "--json").json["state"] == "scheduled"
    asking = cli("reschedule", mail["id"], "--approval", "Mail it?", "--json")
    assert asking.code == 0, asking.err
    assert asking.json["state"] == "waiting"
    broken = cli("reschedule", mail["id"], "--after", chain["id"], "--valid-output", "{")
    assert (broken.code, "valid-output" in broken.err) == (WRONG_USAGE_CODE, True)


def test_a_whole_chain_is_changed_by_its_id_alone_and_among_many_tasks(cli: Run, steps: str) -> None:
    chain = made(cli, steps)
    assert cli("reschedule", chain["id"], "--priority", "high", "--label", "q3").code == 0
    assert {cli("show", step["id"], "--json").json["priority"] for step in chain["chain"]["steps"]} == {"high"}
    assert len(cli("bulk", "cancel", chain["id"], "--json").json["tasks"]) == len(STEPS)


def test_the_help_of_undo_says_how_long_a_task_and_how_long_a_chain_can_be_undone() -> None:
    help_text = tasks.undo.__doc__ or ""
    assert f"of a task within {UNDO_WINDOW.seconds} seconds" in help_text
    assert f"of a chain within {BULK_UNDO_WINDOW.seconds // 60} minutes" in help_text
