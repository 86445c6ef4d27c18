"""`duetime cost`: what runs cost, by day or by another group, and how a pool gets a price."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from duetime.scheduler.store import open_store
from duetime.server.cli.main import run

from tests.builders import Clock, settlement, started
from tests.flow.cli.environment import isolate

Say = Callable[..., str]
MORNING = datetime(2026, 11, 24, 8, tzinfo=UTC)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command at eight in the morning and return what it writes, also where it fails."""
    isolate(monkeypatch, tmp_path)
    monkeypatch.setenv("DUETIME_CURRENCY", "eur")

    def said(*arguments: str, code: int = 0) -> str:
        with time_machine.travel(MORNING, tick=False):
            assert run(arguments) == code
        written = capsys.readouterr()
        return written.err if code else written.out

    return said


def spend(tmp_path: Path, tenant: str = "local", **task: Any) -> None:
    """Let three runs end that cost something."""
    clock = Clock(MORNING)
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock)
    for title, days_ago, cost in (("Old", 40, 9_000_000), ("Ask", 2, 1_234_567), ("Ask again", 1, 10_000)):
        clock.at = MORNING - timedelta(days=days_ago)
        claim = started(store, clock.at, tenant=tenant, title=title, action="prompt", **task)
        store.claims.settle([settlement(claim, used={"tokens": 5.0}, costs={"tokens": cost})])
    store.close()


def test_costs_by_tenant_are_of_all_tenants_unless_one_is_named(cli: Say, tmp_path: Path) -> None:
    for tenant in ("local", "acme"):
        spend(tmp_path, tenant)
    found = json.loads(cli("cost", "--by", "tenant", "--json"))
    assert found["costs"] == [{"key": "acme", "cost": "1.244567"}, {"key": "local", "cost": "1.244567"}]
    named = json.loads(cli("cost", "--by", "tenant", "--tenant", "acme", "--json"))
    assert named["costs"] == [{"key": "acme", "cost": "1.244567"}]


def test_costs_are_listed_by_day_with_their_sum(cli: Say, tmp_path: Path) -> None:
    spend(tmp_path)
    head, first, second, total, *_ = cli("cost").splitlines()
    assert head.split() == ["DAY", "COST"]
    assert (first.split(), second.split()) == (["2026-11-22", "1.234567"], ["2026-11-23", "0.01"])
    assert total == "Total: 1.244567 EUR"
    found = json.loads(cli("cost", "--by", "action", "--since", "60d", "--json"))
    assert (found["schema"], found["currency"], found["total"]) == ("duetime.costs/1", "EUR", "10.244567")
    assert found["costs"] == [{"key": "prompt", "cost": "10.244567"}]
    rows = list(csv.DictReader(io.StringIO(cli("cost", "--by", "task", "--csv"))))
    assert [(row["title"], row["cost"], row["currency"], row["timezone"]) for row in rows] == [
        ("Ask", "1.234567", "EUR", "UTC"),
        ("Ask again", "0.01", "EUR", "UTC"),
    ]


def test_costs_by_label_have_a_line_without_one_and_a_total_that_counts_each_run_once(
    cli: Say, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(tmp_path, labels=())
    spend(tmp_path, labels=("crm", "home"))
    found = json.loads(cli("cost", "--by", "label", "--json"))
    assert found["costs"] == [{"key": name, "cost": "1.244567"} for name in ("", "crm", "home")]
    assert found["total"] == "2.489134"
    with time_machine.travel(MORNING, tick=False):
        assert run(("cost", "--by", "label")) == 0
    written = capsys.readouterr()
    assert [line.split() for line in written.out.splitlines()[:2]] == [["LABEL", "COST"], ["-", "1.244567"]]
    assert "with several labels counts for each of them" in written.err


def test_runs_are_found_by_their_cost_and_show_it(cli: Say, tmp_path: Path) -> None:
    spend(tmp_path)
    head, row, *_ = cli("runs", "--min-cost", "1", "--since", "7d").splitlines()
    assert "COST" in head
    assert " 1.234567 " in row
    assert "min_cost='0.50'" in cli("runs", "--min-cost", "a lot", code=2) or "--min-cost" in cli(
        "runs", "--min-cost", "a lot", code=2
    )


def test_without_a_price_the_answer_says_how_a_pool_gets_one(cli: Say) -> None:
    cli("migrate")
    command = cli("cost").partition("`")[2].partition("`")[0]
    assert command.startswith("duetime pools set tokens ")
    name, spec = "tokens", command.partition("tokens ")[2].strip("'")
    assert cli("pools", "set", name, spec) == "tokens: budget, 1000000 a day, at 3.00 per 1000000\n"
    assert "at 3.00 per 1000000" in cli("pools", "list")
    assert "not exact" in cli("pools", "set", "tokens", '{"price": 0.1}', code=2)


@pytest.mark.parametrize("form", [[], ["--csv"]])
def test_a_list_that_was_cut_says_what_the_rest_cost(
    cli: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: list[str]
) -> None:
    spend(tmp_path)
    monkeypatch.setattr("duetime.scheduler.foresight.readers.report_reader.MAX_COST_LINES", 1)
    with time_machine.travel(MORNING, tick=False):
        assert run(("cost", "--by", "task", *form)) == 0
    assert "There are more than these 1 lines. The rest cost 0.01 EUR." in capsys.readouterr().err
