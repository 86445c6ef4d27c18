"""`duetime history`: filters, pages that lead on, and times that people wrote."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from duetime.server.cli.main import run

from tests import blank
from tests.flow.cli.environment import isolate

Answer = Callable[..., Any]
START = datetime(2026, 11, 2, 16, 0, tzinfo=UTC)


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Answer:
    """Run `duetime history` and return its lines."""
    isolate(monkeypatch, tmp_path)
    blank.make(tmp_path / "duetime.db")
    monkeypatch.setenv("DUETIME_TIMEZONE", "Europe/Berlin")
    monkeypatch.setenv("DUETIME_DESKTOP_NOTIFICATIONS", "off")

    def answered(*arguments: str) -> list[str]:
        capsys.readouterr()
        assert run(["history", *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    return answered


@pytest.fixture
def answer(lines: Answer) -> Answer:
    """Run `duetime history --json` and return what it answers."""
    return lambda *arguments: json.loads(lines(*arguments, "--json")[0])


@pytest.fixture
def past(lines: Answer, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Make three tasks an hour apart, one of them cancelled; return their ids by title."""
    made: dict[str, str] = {}
    for hour, (title, labels) in enumerate({"Report": ["--label", "work"], "Call John": [], "Old": []}.items()):
        with time_machine.travel(START + timedelta(hours=hour), tick=False):
            run(["schedule", title, "--when", "in 20 days", *labels, "--json"])
            made[title] = json.loads(capsys.readouterr().out)["id"]
    with time_machine.travel(START + timedelta(hours=3), tick=False):
        run(["cancel", made["Old"], "--reason", "no longer needed"])
    return made


def kinds(answer: Any, made: dict[str, str]) -> list[tuple[str, str]]:
    titles = {task_id: title for title, task_id in made.items()}
    return [(titles[event["task_id"]], event["kind"]) for event in answer["events"]]


def test_events_are_counted_by_group_and_by_day(lines: Answer, past: dict[str, str]) -> None:
    assert [line.split() for line in lines("--count-by", "kind")] == [
        ["KIND", "EVENTS"],
        ["created", "3"],
        ["cancelled", "1"],
    ]
    assert lines("--count-by", "kind", "--label", "work", "--csv") == ["kind,events", "created,1"]
    counted = json.loads(lines(past["Old"], "--bucket", "day", "--json")[0])
    assert [bucket["counts"] for bucket in counted["buckets"]] == [{"cancelled": 1, "created": 1}]
    assert lines("--bucket", "day", "--actor", "nobody") == ["No events."]


def test_the_newest_event_comes_first_with_its_task(answer: Answer, past: dict[str, str]) -> None:
    found = answer()
    assert found["schema"] == "duetime.events/1"
    expected = [("Old", "cancelled"), ("Old", "created"), ("Call John", "created"), ("Report", "created")]
    assert kinds(found, past) == expected
    assert "cursor" not in found


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (("--label", "work"), ["Report"]),
        (("--state", "cancelled"), ["Old"]),
        (("--text", "no longer"), ["Old"]),
        (("--action", "webhook"), []),
        (("--since", "2026-11-02T19:30+01:00"), ["Old"]),
        (("--since", "2026-11-02T18:00", "--until", "2026-11-02T18:30"), ["Call John"]),
        (("--until", "2026-11-02"), []),
        (("--since", "90 minutes ago", "--state", "scheduled"), ["Old"]),
        (("--since", "yesterday", "--state", "cancelled"), ["Old"]),
        (("--since", "monday"), ["Old", "Call John", "Report"]),
        (("--since", "12h"), ["Old", "Call John", "Report"]),
        (("--since", "19:30"), ["Old"]),
        (("--since", "yesterday 20:00", "--until", "18:30"), ["Call John", "Report"]),
        (("--since", "this morning", "--until", "friday"), []),
    ],
)
def test_it_is_filtered(answer: Answer, past: dict[str, str], filters: tuple[str, ...], expected: list[str]) -> None:
    with time_machine.travel(START + timedelta(hours=3), tick=False):
        found = kinds(answer(*filters), past)
    assert list(dict.fromkeys(title for title, _ in found)) == expected


def test_history_of_one_task_shows_that_task_alone(answer: Answer, past: dict[str, str]) -> None:
    assert kinds(answer(past["Old"]), past) == [("Old", "cancelled"), ("Old", "created")]


def test_for_people_times_are_in_the_configured_zone(lines: Answer, past: dict[str, str]) -> None:
    shown = lines(past["Old"])
    assert shown[0].split() == ["AT", "(Europe/Berlin)", "TASK", "EVENT", "STATE", "BY", "CHANGED", "WHY"]
    assert shown[1].startswith(f"2026-11-02 20:00:00  {past['Old']}  cancelled  scheduled -> cancelled  local")
    assert shown[1].endswith("no longer needed")


def test_a_change_is_shown_in_the_zone_of_the_task(
    lines: Answer, answer: Answer, capsys: pytest.CaptureFixture[str]
) -> None:
    with time_machine.travel(START, tick=False):
        run(["schedule", "Call John", "--when", "2026-11-24T09:00", "--timezone", "Asia/Tokyo", "--json"])
        made = json.loads(capsys.readouterr().out)["id"]
        run(["reschedule", made, "--when", "2026-11-24T11:00", "--title", "Call Jane"])
    changed = {"title": ["Call John", "Call Jane"], "when": ["Tue 24 Nov 2026 09:00", "Tue 24 Nov 2026 11:00"]}
    assert answer(made)["events"][0]["changes"] == changed
    heading, event, *_ = lines(made)
    assert heading.startswith("AT (Asia/Tokyo)")
    assert "title Call John -> Call Jane, when Tue 24 Nov 2026 09:00 -> Tue 24 Nov 2026 11:00" in event


def test_each_page_gives_the_command_for_the_next_until_the_end(lines: Answer, past: dict[str, str]) -> None:
    seen: list[tuple[str, str]] = []
    command = ["--limit", "1", "--since", "2026-11-02 00:00"]
    while command:
        _heading, event, *more = lines(*command)
        _date, _time, task_id, *title_and_kind = event.split()
        seen.append((task_id, next(word for word in title_and_kind if word in {"created", "cancelled"})))
        command = shlex.split(more[0].removeprefix("More: duetime history ")) if more else []
    created = [(past[title], "created") for title in ("Old", "Call John", "Report")]
    assert seen == [(past["Old"], "cancelled"), *created]


def test_a_bound_in_words_means_the_same_on_every_page(lines: Answer, past: dict[str, str]) -> None:
    with time_machine.travel(START + timedelta(hours=12), tick=False):
        first = shlex.split(lines("--limit", "3", "--since", "12h")[-1].removeprefix("More: duetime history "))
    with time_machine.travel(START + timedelta(hours=12, minutes=30), tick=False):
        assert past["Report"] in lines(*first)[1]


def test_it_says_how_the_bounds_were_read(lines: Answer, capsys: pytest.CaptureFixture[str]) -> None:
    with time_machine.travel(START, tick=False):
        assert run(["history", "--since", "friday"]) == 0
    assert capsys.readouterr().err == "Events from Fri 30 Oct 2026 00:00 Europe/Berlin.\n"


def test_where_nothing_happened_it_says_so(lines: Answer) -> None:
    assert lines() == ["No events."]


def test_a_time_that_is_not_understood_names_the_option(lines: Answer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", "--since", "a while ago"]) == 2
    assert capsys.readouterr().err.startswith("duetime: --since: 'a while ago' is not understood.")
    assert run(["history", "--since", "whenever"]) == 2
    said = capsys.readouterr().err.rstrip()
    assert said.endswith("Example: --since yesterday")
    assert run(["history", "--since", "yesterday"]) == 0
