"""The verbs for tasks, against a real database: what they print, what they answer as JSON, and how they end."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.nodes.ipc import RunnerServer
from duetime.scheduler.outcomes import Retry
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import open_store
from duetime.server.cli.main import run
from duetime.server.words.command_words import COMMAND_WORDS, in_options
from duetime.widgets.formats.terminal_text import plain

from tests.flow.cli.environment import isolate
from tests.widgets.published import assert_published

Run = Callable[..., "Ended"]


@dataclass(frozen=True, slots=True)
class Ended:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        found = json.loads(self.out)
        assert_published(found)
        return found


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `duetime` with a database, a home and a zone of the test's own."""
    isolate(monkeypatch, tmp_path)
    monkeypatch.setenv("DUETIME_TIMEZONE", "America/Edmonton")
    monkeypatch.setenv("DUETIME_DESKTOP_NOTIFICATIONS", "off")

    def ended(*arguments: str) -> Ended:
        code = run(arguments)
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return ended


def scheduled(cli: Run, *arguments: str) -> dict[str, Any]:
    ended = cli("schedule", *arguments, "--json")
    assert ended.code == 0, ended.err
    return dict(ended.json)


def test_scheduling_says_what_was_understood(cli: Run) -> None:
    ended = cli("schedule", "Call John", "--when", "in 2 hours")
    assert ended.code == 0
    assert ended.out.startswith("Scheduled t_")
    assert "'Call John'" in ended.out
    assert "America/Edmonton (in 2 h" in ended.out or "America/Edmonton (in 1 h 59 min" in ended.out


def test_a_task_that_failed_is_shown_with_its_traceback(cli: Run, tmp_path: Path) -> None:
    task = scheduled(cli, "Send it", "--when", "now")
    store = open_store(f"sqlite:///{tmp_path}/duetime.db")
    runs = [Start(run.run_id) for run in store.claims.make_ready(limit=9)]
    for claim in store.claims.start(runs, worker="w", epoch=None, lease=timedelta(minutes=1)):
        ending = settle(claim, Retry("ValueError: no"), now=store.now(), jitter=1.0)
        ended = replace(ending, traceback='Traceback:\n  File "a.py"\nValueError: no\x1b')
        store.claims.settle([ended])
    store.close()
    shown = cli("show", task["id"])
    assert "Traceback of attempt 1, started 20" in shown.out
    assert '\n  File "a.py"\nValueError: no\ufffd\n' in shown.out
    assert cli("show", task["id"], "--json").json["failed_attempt"]["traceback"].startswith("Traceback:\n")
    for command in (("show", task["id"], "--history"), ("history", task["id"])):
        assert cli(*command).out.count("ValueError: no\ufffd") == 1


def test_a_minimum_of_a_second_allows_intervals_of_seconds(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = cli("schedule", "Poll", "--repeat", "every 10 seconds")
    assert refused.code == 2
    assert "fires every 10 s, more often than every 1 min" in refused.err
    assert "every minute" in refused.err
    monkeypatch.setenv("DUETIME_MINIMUM_INTERVAL_SECONDS", "1")
    task = scheduled(cli, "Poll", "--repeat", "every 10 seconds")
    assert (task["repeat"]["text"], task["repeat"]["rule"]) == ("every 10 seconds", "FREQ=SECONDLY;INTERVAL=10")
    monkeypatch.delenv("DUETIME_MINIMUM_INTERVAL_SECONDS")
    moved = cli("reschedule", task["id"], "--title", "Poll it", "--json")
    assert moved.json["repeat"]["text"] == "every 10 seconds", "a stored rule stays, whatever may be asked for now"
    listed = cli("list", "--before", "in 1 day", "--json").json
    assert len(listed["tasks"]) == 20


def test_json_is_the_payload_of_the_tools_on_one_line(cli: Run) -> None:
    ended = cli("schedule", "Call John", "--when", "tomorrow 9am", "--label", "a=1", "--label", "b", "--json")
    assert ended.out.count("\n") == 1
    task = ended.json
    assert (task["schema"], task["title"], task["created"]) == ("duetime.task/1", "Call John", True)
    assert task["when"]["local"][10:19] == "T09:00:00"
    assert task["labels"] == ["a=1", "b"]


def test_every_option_of_schedule_reaches_the_task(cli: Run) -> None:
    task = scheduled(
        cli,
        *("Stand-up", "--repeat", "every weekday at 9:00", "--timezone", "Europe/Berlin", "--until", "in 300 days"),
        *("--max-runs", "7", "--payload", '{"message": "Bring coffee"}', "--deliver-to", "inbox", "--key", "k"),
    )
    assert task["repeat"]["rule"].startswith("FREQ=WEEKLY")
    assert (task["when"]["timezone"], task["message"]) == ("Europe/Berlin", "Bring coffee")
    again = scheduled(
        cli,
        *("Stand-up", "--repeat", "every weekday at 9:00", "--timezone", "Europe/Berlin", "--until", "in 300 days"),
        *("--max-runs", "7", "--payload", '{"message": "Bring coffee"}', "--deliver-to", "inbox", "--key", "k"),
    )
    assert (again["id"], again["created"]) == (task["id"], False)


def test_a_key_used_for_something_else_is_refused_with_4(cli: Run) -> None:
    scheduled(cli, "Call John", "--when", "in 2 hours", "--key", "k")
    ended = cli("schedule", "Call Jane", "--when", "in 2 hours", "--key", "k")
    assert ended.code == 4
    assert ended.err.startswith("duetime: --key: 'k' was used before, for t_")
    assert re.search(r"or `duetime reschedule t_\w+` to change that one\.$", ended.err)


def test_a_dry_run_stores_nothing(cli: Run) -> None:
    ended = cli("schedule", "Stand-up", "--repeat", "every day at 9:00", "--dry-run")
    assert ended.out.startswith("Would schedule 'Stand-up' (not stored): ")
    assert "dry-run" not in ended.out
    assert "nothing was stored" not in ended.out
    assert len(ended.out.splitlines()[1].removeprefix("  next: ").split(", ")) == 5
    assert cli("list", "--json").json["tasks"] == []


def test_a_change_says_what_it_changed(cli: Run) -> None:
    task_id = scheduled(cli, "Call John", "--when", "in 2 hours")["id"]
    line, *more = cli("reschedule", task_id, "--priority", "high", "--title", "Call Jane").out.splitlines()
    assert line.startswith(f"Changed {task_id} 'Call Jane': ")
    assert more[:2] == ["  title Call John -> Call Jane", "  priority normal -> high"]
    again = cli("reschedule", task_id, "--priority", "high").out
    assert again.startswith("Left as it was:")
    assert "normal" not in again


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Call John",), "duetime: --when: a reminder needs a time"),
        (("Call John", "--when", "soonish"), "duetime: --when: "),
        (
            ("Call John", "--when", "in 1 h", "--payload", "{"),
            "duetime: --payload: it is not JSON: ",
        ),
        (("Call John", "--when", "in 1 h", "--payload", "[1]"), "duetime: --payload: it is not an object."),
        (("Call John", "--when", "in 1 h", "--action", "dance"), "duetime: --action: no action 'dance'"),
        (("Call John", "--when", "in 1 h", "--max-runs", "2"), "duetime: --max-runs: only a recurring task has an end"),
    ],
)
def test_a_wrong_argument_ends_with_2_and_names_the_option(cli: Run, arguments: tuple[str, ...], said: str) -> None:
    ended = cli("schedule", *arguments)
    assert ended.code == 2
    assert ended.err.startswith(said)
    assert ended.out == ""
    assert "Traceback" not in ended.err


def test_several_wrong_arguments_are_said_together(cli: Run) -> None:
    ended = cli("schedule", " ", "--when", "soonish", "--action", "dance")
    assert ended.code == 2
    assert [line.removeprefix("duetime: ").split(":")[0] for line in ended.err.splitlines()] == [
        "TITLE",
        "--when",
        "--action",
    ]


def test_the_list_shows_open_tasks_by_time_and_counts(cli: Run) -> None:
    scheduled(cli, "Second", "--when", "in 3 hours", "--label", "x")
    scheduled(cli, "First", "--when", "in 2 hours")
    gone = scheduled(cli, "Gone", "--when", "in 1 hour")
    cli("cancel", gone["id"])
    rows = cli("list").out.splitlines()
    assert rows[0].split() == ["ID", "WHEN", "STATE", "TITLE", "ACTION", "REPEATS", "LABELS"]
    assert [next(word for word in ("First", "Second", "Gone") if word in row) for row in rows[1:4]] == [
        "First",
        "Second",
        "Gone",
    ]
    assert rows[4] == "2 scheduled, 1 cancelled"


def test_an_empty_list_says_how_to_begin_or_that_the_filter_finds_nothing(cli: Run) -> None:
    assert cli("list").out == "No tasks. Create one: duetime schedule 'Call John' --when 'in 20 min'\n"
    nothing = "No task matches this filter; `duetime list` without a filter lists all.\n"
    assert cli("list", "--query", "x").out == nothing


@pytest.mark.parametrize(
    ("filters", "titles"),
    [
        (("--label", "work"), ["Report"]),
        (("--query", "john"), ["Call John"]),
        (("--state", "cancelled"), ["Old"]),
        (("--state", "Ended"), ["Old"]),
        (("--state", "open"), ["Call John", "Report"]),
        (("--after", "in 90 min"), ["Report"]),
        (("--before", "in 90 min", "--state", "scheduled"), ["Call John"]),
    ],
)
def test_the_list_is_filtered(cli: Run, filters: tuple[str, ...], titles: list[str]) -> None:
    scheduled(cli, "Call John", "--when", "in 1 hour")
    scheduled(cli, "Report", "--when", "in 2 hours", "--label", "work")
    old = scheduled(cli, "Old", "--when", "in 1 hour")
    cli("cancel", old["id"])
    found = [row["title"] for row in cli("list", *filters, "--json").json["tasks"]]
    assert [title for title in found if title != "Old" or {"cancelled", "Ended", "open"} & {*filters}] == titles


def test_a_state_that_does_not_exist_is_refused_with_those_that_do(cli: Run) -> None:
    ended = cli("list", "--state", "done")
    assert ended.code == 2
    assert ended.err.startswith("duetime: --state: there is no state 'done'. Accepted: open, ended, scheduled, waiting")
    assert ended.err.endswith("with commas between, but for the last four. Example: --state succeeded\n")
    for verb in ("list", "runs"):
        assert "there is no state 'bogus'. " in cli(verb, "--state", "failed,bogus").err


def test_each_page_of_the_list_says_the_command_for_the_next(cli: Run) -> None:
    for number in range(3):
        scheduled(cli, f"Task {number}", "--when", f"in {number + 1} hours", "--label", "x")
    first = cli("list", "--limit", "2", "--label", "x")
    command = first.out.splitlines()[-1]
    assert command.startswith("More: duetime list --limit 2 --label x --cursor ")
    second = cli(*command.removeprefix("More: duetime ").split())
    assert ("Task 2" in second.out, "Task 0" in second.out, "More:" in second.out) == (True, False, False)


def test_show_prints_all_fields_of_a_task(cli: Run) -> None:
    task = scheduled(cli, "Stand-up", "--repeat", "every day at 9:00", "--payload", '{"message": "Bring coffee"}')
    shown = cli("show", task["id"]).out
    for word in (
        task["id"],
        "revision 1",
        "Stand-up",
        "scheduled",
        "Bring coffee",
        "America/Edmonton",
        "reminder",
        "local",
    ):
        assert word in shown
    assert cli("show", task["id"], "--json").json["repeat"]["next"] == task["repeat"]["next"]


def test_show_with_history_lists_events(cli: Run) -> None:
    task = scheduled(cli, "Call John", "--when", "in 2 hours")
    cli("cancel", task["id"], "--reason", "he called")
    shown = cli("show", task["id"], "--history")
    assert "cancelled" in shown.out
    assert "he called" in shown.out
    events = cli("show", task["id"], "--history", "--json").json["history"]["events"]
    assert [event["kind"] for event in events] == ["cancelled", "created"]


def test_rescheduling_changes_what_is_given_and_nothing_else(cli: Run) -> None:
    task = scheduled(cli, "Call John", "--when", "in 2 hours", "--label", "x")
    ended = cli("reschedule", task["id"], "--when", "tomorrow 9am", "--title", "Call Jane", "--json")
    changed = ended.json
    assert (changed["title"], changed["revision"], changed["labels"]) == ("Call Jane", 2, ["x"])
    assert changed["when"]["local"][10:19] == "T09:00:00"


def test_labels_channels_retries_and_runs_are_given_changed_and_removed(cli: Run) -> None:
    rule = ("--repeat", "every day at 9:00", "--max-runs", "3", "--retry", "2", "--label", "old")
    task = scheduled(cli, "Report", *rule)
    changes = ("--label", "a", "--label", "b", "--retry", "max_attempts=4", "--max-runs", "9", "--deliver-to", "inbox")
    changed = cli("reschedule", task["id"], *changes, "--json").json
    assert (changed["labels"], changed["repeat"]["max_runs"]) == (["a", "b"], 9)
    told = cli("show", task["id"], "--history").out
    assert "retry 2 attempts" in re.sub(r"\s+", " ", told)
    removed = cli("reschedule", task["id"], "--remove", "labels", "--remove", "max-runs", "--json").json
    assert "labels" not in removed
    assert "max_runs" not in removed["repeat"]
    wrong = cli("reschedule", task["id"], "--remove", "title")
    assert (wrong.code, wrong.err.startswith("duetime: --remove: 'title' cannot be removed.")) == (2, True)


def test_a_task_can_be_held_and_let_go_and_skipped(cli: Run) -> None:
    task = scheduled(cli, "Stand-up", "--repeat", "every day at 9:00")
    paused = cli("reschedule", task["id"], "--pause").out
    assert paused.startswith(f"Paused {task['id']}")
    assert f"it is held until `duetime reschedule {task['id']} --resume`" in paused
    assert f"paused: resume it with `duetime reschedule {task['id']} --resume`" in cli("show", task["id"]).out
    assert f"paused: resume it with `duetime reschedule {task['id']} --resume`" in cli("explain", task["id"]).out
    assert cli("show", task["id"], "--json").json["paused"] is True
    assert "paused" in cli("list").out
    assert "paused" not in cli("reschedule", task["id"], "--resume", "--json").json
    skipped = cli("reschedule", task["id"], "--skip-next", "--json").json
    assert skipped["when"]["utc"] > task["when"]["utc"]


def test_an_old_revision_is_refused_with_4(cli: Run) -> None:
    task = scheduled(cli, "Call John", "--when", "in 2 hours")
    cli("reschedule", task["id"], "--title", "Call Jane")
    for verb in (("reschedule", task["id"], "--title", "Call Jim"), ("cancel", task["id"])):
        ended = cli(*verb, "--revision", "1")
        assert ended.code == 4
        assert "is at revision 2, not 1; nothing was changed" in ended.err
        assert "Since then: rescheduled by local (title «Call John» -> «Call Jane»)." in ended.err


@pytest.mark.parametrize("verb", [("show",), ("cancel",), ("reschedule", "--title", "x"), ("history",)])
def test_an_unknown_id_ends_with_3_and_names_the_closest(cli: Run, verb: tuple[str, ...]) -> None:
    task = scheduled(cli, "Call John", "--when", "in 2 hours")
    wrong = task["id"][:-1] + ("0" if task["id"][-1] != "0" else "1")
    ended = cli(verb[0], wrong, *verb[1:])
    assert ended.code == 3
    assert ended.err.startswith(f"duetime: ID: no task '{wrong}'.")
    assert task["id"] in ended.err


def test_cancelling_says_so_and_twice_changes_nothing(cli: Run) -> None:
    task = scheduled(cli, "Call John", "--when", "in 2 hours")
    assert cli("cancel", task["id"]).out.startswith(f"Cancelled {task['id']}")
    again = cli("cancel", task["id"])
    assert (again.code, "nothing was changed" in again.out) == (0, True)


def test_a_task_is_held_until_a_time_and_says_so_everywhere(cli: Run) -> None:
    task = scheduled(cli, "Stand-up", "--repeat", "every day at 9:00")
    tried = cli("reschedule", task["id"], "--pause-until", "in 2 hours", "--dry-run").out
    assert "it would be held until " in tried
    assert "it would be held until it is resumed" in cli("reschedule", task["id"], "--pause", "--dry-run").out
    paused = cli("reschedule", task["id"], "--pause-until", "in 2 hours").out
    assert paused.startswith(f"Paused {task['id']}")
    assert re.search(rf"it is held until .* \d\d:\d\d .*, or until `duetime reschedule {task['id']} --resume`", paused)
    shown = cli("show", task["id"]).out
    assert re.search(r"state +paused until .* \d\d:\d\d", shown)
    assert f"to go on sooner, resume it with `duetime reschedule {task['id']} --resume`" in " ".join(shown.split())
    assert cli("show", task["id"], "--json").json["paused_until"]
    assert cli("list", "--json").json["tasks"][0]["paused_until"]
    assert "paused until" in " ".join(cli("list").out.split())
    assert "Changed" not in cli("reschedule", task["id"], "--pause-until", "in 3 hours").out
    resumed = cli("reschedule", task["id"], "--resume", "--json").json
    assert "paused_until" not in resumed
    wrong = cli("reschedule", task["id"], "--pause-until", "yesterday")
    assert (wrong.code, wrong.err.startswith("duetime: --pause-until: 'yesterday' is in the past")) == (2, True)


def test_everything_is_paused_until_a_time_by_one_command(cli: Run) -> None:
    for title in ("Stand-up", "Lunch"):
        scheduled(cli, title, "--when", "in 3 hours")
    preview = cli("bulk", "pause", "--all", "--until", "in 2 hours")
    assert "This would pause 2 tasks until " in preview.out
    assert "--expect 2" in preview.err
    assert "Paused 2 tasks until " in cli("bulk", "pause", "--all", "--until", "in 2 hours", "--expect", "2").out


@pytest.mark.parametrize("option", [("--about", "lun"), ("--query", "lun"), ("--priority", "high"), ("--tier", "high")])
def test_a_filter_of_many_tasks_has_the_names_that_lists_have(cli: Run, option: tuple[str, str]) -> None:
    scheduled(cli, "Stand-up", "--when", "in 3 hours")
    lunch = scheduled(cli, "Lunch", "--when", "in 3 hours", "--priority", "high")
    found = cli("bulk", "pause", *option, "--dry-run", "--json").json
    assert [task["id"] for task in found["tasks"]] == [lunch["id"]]


def test_a_cancel_says_how_to_undo_it(cli: Run) -> None:
    task = scheduled(cli, "Call John", "--when", "in 2 hours")
    command = cli("cancel", task["id"]).out.splitlines()[-1].strip()
    assert command == f"undo within 30 s: duetime undo {task['id']}"
    again = cli(*command.split(": duetime ")[1].split())
    assert again.out.startswith(f"Scheduled again {task['id']}")
    late = cli("undo", task["id"])
    assert (late.code, late.err.startswith("duetime: undo: ")) == (4, True)


def test_the_undo_that_a_new_task_is_shown_with_says_that_it_is_cancelled(cli: Run) -> None:
    made = cli("schedule", "Call John", "--when", "in 2 hours").out
    task_id = re.findall(r"t_\w+", made)[0]
    assert f"undo within 30 s: duetime undo {task_id} u_1" in made
    assert cli("undo", task_id, "u_1").out.startswith(f"Cancelled {task_id} 'Call John': ")


def test_the_undo_of_a_change_of_many_tasks_is_named_by_its_command(cli: Run) -> None:
    task_id = scheduled(cli, "Call John", "--when", "in 2 hours")["id"]
    token = re.findall(r"duetime bulk undo (u_b\w+)", cli("bulk", "cancel", task_id).err)[0]
    refused = cli("undo", task_id, token)
    assert (refused.code, refused.err) == (
        4,
        (
            f"duetime: undo: {token} takes back a change of many tasks, not that of {task_id} alone. "
            f"`duetime bulk undo {token}` takes all of it back.\n"
        ),
    )
    assert cli("bulk", "undo").err.endswith(" Accepted: the `undo` in the answer to the change.\n")
    assert [cli("bulk", "pause", task_id, *way).code for way in ((), ("--json",), ("--dry-run",))] == [4, 4, 0]
    assert cli("bulk", "undo", token).code == 0
    assert cli("bulk", "pause", "t_000000000000").err.startswith("duetime: ID: no task")


def test_a_reschedule_that_changes_nothing_says_so(cli: Run) -> None:
    task = scheduled(cli, "Call John", "--when", "in 2 hours")
    same = cli("reschedule", task["id"], "--title", "Call John")
    assert same.out.startswith(f"Left as it was: {task['id']}")
    nothing = cli("reschedule", task["id"])
    accepted = "a new title, time, recurrence, payload, urgency, delivery, label or wait, a pause or a skip"
    told = f"duetime: OPTIONS: nothing to change was given. Accepted: {accepted}. Example: --title 'Call John'\n"
    assert (nothing.code, nothing.err) == (2, told)


def test_the_end_of_a_recurrence_is_told(cli: Run) -> None:
    rule = ("--repeat", "every day at 9:00", "--timezone", "UTC", "--when", "2031-01-01", "--until", "2031-01-10")
    task = scheduled(cli, "Medicine", *rule, "--max-runs", "5")
    ends = "every day at 09:00 until Fri 10 Jan 2031 23:59, 5 times"
    assert ends in cli("show", task["id"]).out
    assert ends in cli("reschedule", task["id"], "--title", "Pills").out


def test_urgency_is_taken_shown_and_changed(cli: Run) -> None:
    options = ("--priority", "high", "--deadline", "90 min", "--deadline-type", "hard", "--need", "key:customer-42=1")
    task = scheduled(cli, "Call John", "--when", "tomorrow 9am", *options, "--estimate", "20 s")
    shown = cli("show", task["id"]).out
    changed = cli("reschedule", task["id"], "--deadline", "none", "--need", "none", "--priority", "normal", "--json")

    assert (task["priority"], task["deadline"]["type"], task["needs"]) == ("high", "hard", {"key:customer-42": 1})
    assert re.search(r"^deadline +Finish by .* 10:30 \(hard\)$", shown, re.MULTILINE)
    assert re.search(r"^takes +about 20 s$", shown, re.MULTILINE)
    assert not {"priority", "deadline", "needs"} & json.loads(changed.out).keys()


def test_a_problem_with_urgency_is_reported_in_options(cli: Run) -> None:
    ended = cli("schedule", "Call John", "--when", "tomorrow 9am", "--need", "gpu", "--deadline-type", "hard")

    assert ended.code == 2
    assert "--deadline-type: it needs a deadline" in ended.err
    assert "--need: gpu is given no number." in ended.err


def test_scheduling_where_nothing_runs_tasks_says_so_and_what_to_do(cli: Run) -> None:
    ended = cli("schedule", "Call John", "--when", "in 2 hours")
    assert ended.err.startswith("No process is running tasks")
    assert ended.err.count("\n") == 1
    assert "`duetime serve`" in ended.err
    assert "`duetime service install`" in ended.err
    assert cli("schedule", "Call John", "--when", "in 2 hours", "--dry-run").err == ""


def test_a_new_time_where_nothing_runs_tasks_says_so_too_and_other_changes_do_not(cli: Run) -> None:
    task = scheduled(cli, "Call John", "--when", "in 2 hours")
    for options in (("--when", "now"), ("--repeat", "daily at 9:00"), ("--resume",)):
        assert cli("reschedule", task["id"], *options).err.startswith("No process is running tasks"), options
    for quiet in (("--title", "Call Ann"), ("--pause",), ("--when", "in 3 hours", "--dry-run")):
        assert cli("reschedule", task["id"], *quiet).err == "", quiet


def test_scheduling_next_to_a_runner_says_nothing_of_it(cli: Run, tmp_path: Path) -> None:
    scheduled(cli, "First", "--when", "in 2 hours")
    store = open_store(f"sqlite:///{tmp_path}/duetime.db")
    runner = RunnerServer(lambda: None, file=store.file())
    store.runners.take_over(pid=os.getpid(), endpoint=runner.endpoint, token=runner.token)
    store.close()
    runner.start()
    try:
        assert cli("schedule", "Second", "--when", "in 2 hours").err == ""
    finally:
        runner.close()


@pytest.mark.parametrize(
    ("passed", "typed"),
    [
        ("deliver_to=['inbox']", "--deliver-to inbox"),
        ("labels=['a=1', 'two words']", "--label a=1 --label 'two words'"),
        ("payload={'message': 'Call John'}", """--payload '{"message": "Call John"}'"""),
        ("needs={'gpu': 1, 'key:a b': 2}", "--need gpu=1 --need 'key:a b=2'"),
        ("deadline='2 hours', deadline_type='hard'", "--deadline '2 hours' --deadline-type hard"),
        ("when='9am' or when='9pm'", "--when 9am or --when 9pm"),
        ("when='17:30', all_following=false", "--when 17:30, without --all-following"),
        ("max_runs=10, until=null", "--max-runs 10, without --until"),
        ("sort='title'", "sort='title'"),
    ],
)
def test_an_example_is_shown_as_it_is_typed(passed: str, typed: str) -> None:
    assert COMMAND_WORDS.example(passed) == typed


def test_a_note_begins_with_the_option_that_it_is_about() -> None:
    assert in_options("deadline_type: soft was assumed") == "--deadline-type: soft was assumed"
    assert in_options("the series goes on: it next runs today") == "the series goes on: it next runs today"
    assert in_options("because of notify='never'; x='y'") == "because of --notify never; x='y'"


def test_a_note_on_one_occurrence_says_the_option_that_moves_the_series(cli: Run) -> None:
    task = scheduled(cli, "Stand-up", "--repeat", "every day at 10:00")
    said = cli("reschedule", task["id"], "--when", "tomorrow 9:45").out
    assert "to move them all, give --all-following as well" in said
    assert "all_following" not in said


def test_a_refused_command_says_the_command_that_helps(cli: Run) -> None:
    task = scheduled(cli, "Call John", "--repeat", "every day at 9:00")
    cli("cancel", task["id"])

    refused = cli("reschedule", task["id"], "--when", "tomorrow 9am")

    assert refused.err == f"duetime: {task['id']} was cancelled. Schedule a new task with `duetime schedule`.\n"


@pytest.mark.parametrize("verb", ["", "schedule", "list", "reschedule", "install", "service"])
def test_help_names_values_plainly_and_flags_without_one(cli: Run, verb: str) -> None:
    shown = cli(*verb.split(), "--help").out
    assert shown.startswith("Usage: duetime")
    assert not re.search(r"<\w+>|\{|\w\.\.\.$", shown, re.MULTILINE)
    if verb == "reschedule":
        assert re.search(r"^  --when WHEN  ", shown, re.MULTILINE)
        assert re.search(r"^  --skip-next   ", shown, re.MULTILINE)


def test_text_of_users_cannot_steer_the_terminal() -> None:
    assert plain("a\x1b[31mb\u202ec\nd👨\u200d👩") == "a\ufffd[31mb\ufffdc d👨\u200d👩"


def test_the_options_before_the_verb_win_over_the_environment(cli: Run, tmp_path: Path) -> None:
    scheduled(cli, "Call John", "--when", "in 2 hours")
    other = cli("--database-url", f"sqlite:///{tmp_path}/other.db", "list", "--json")
    assert other.json["tasks"] == []
    config = tmp_path / "duetime.toml"
    config.write_text("port = 99999\n", encoding="utf-8")
    wrong = cli("--config", str(config), "list")
    assert (wrong.code, wrong.err.startswith(f"duetime: port (file {config}): '99999' is not accepted")) == (2, True)


def test_handlers_in_the_current_directory_can_be_named_and_scheduled(
    cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cli_test_dancing.py").write_text(
        "from duetime import Context, Done, handler\n\n\n"
        "@handler('dance')\ndef dance(ctx: Context) -> Done:\n    return Done(summary='danced')\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    ended = cli(
        "--handlers", "cli_test_dancing", "schedule", "Party", "--when", "in 2 hours", "--action", "dance", "--json"
    )
    assert ended.code == 0, ended.err
    assert ended.json["action"] == "dance"
    missing = cli("--handlers", "no_such_module", "list")
    assert (missing.code, "no_such_module" in missing.err) == (2, True)
