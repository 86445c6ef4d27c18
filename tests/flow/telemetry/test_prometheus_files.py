"""The files for Prometheus and Grafana are right for their programs; the runbook has each alert."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it has no stubs of its own
from duetime.scheduler.rules.alerts.alert_rules import ALERT_RULES
from duetime.server.app import build
from duetime.server.telemetry.metrics.metrics import Metrics

from tests.builders import some
from tests.flow.test_app import settings

ROOT = Path(__file__).resolve().parents[3]
RULES_FILE = ROOT / "examples" / "prometheus" / "duetime.rules.yml"
DASHBOARD = ROOT / "examples" / "grafana" / "duetime.json"
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text("utf-8")
ANSWERS = ("What it means.", "How to see it.", "What to do.", "How to be sure it is over.")


def alerts() -> dict[str, dict[str, Any]]:
    [group] = yaml.safe_load(RULES_FILE.read_text("utf-8"))["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=RULES_FILE.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_the_rules_and_each_alert_fires_on_its_own_state(promtool: str) -> None:
    assert f"{len(ALERT_RULES)} rules found" in run(promtool, "check", "rules", RULES_FILE.name)
    assert "SUCCESS" in run(promtool, "test", "rules", "duetime.rules.test.yml")


def test_each_alert_of_prometheus_has_a_test_in_which_it_fires() -> None:
    found = yaml.safe_load((RULES_FILE.parent / "duetime.rules.test.yml").read_text("utf-8"))["tests"]
    fired = {case["alertname"] for test in found for case in test.get("alert_rule_test", []) if case["exp_alerts"]}
    assert fired == set(alerts())


def test_prometheus_and_duetime_have_the_same_alerts() -> None:
    found = alerts()
    assert list(found) == [rule.name for rule in ALERT_RULES]
    for rule in ALERT_RULES:
        theirs = found[rule.name]
        assert theirs.get("for", "0m") == f"{rule.lasts.total_seconds() / 60:.0f}m", rule.name
        assert theirs["labels"] == {"severity": "page" if rule.page else "ticket"}
        assert f"> {rule.fires_above:g}" in theirs["expr"], rule.name


def test_each_alert_has_a_section_in_the_runbook_that_says_four_things() -> None:
    sections = dict(re.findall(r"^## (Duetime\w+)\n(.*?)(?=^## |\Z)", RUNBOOK, re.MULTILINE | re.DOTALL))
    assert list(sections) == [rule.name for rule in ALERT_RULES]
    for name, text in sections.items():
        assert re.findall(r"^\*\*([^*]+)\*\*", text, re.MULTILINE) == [*ANSWERS], name
        assert alerts()[name]["annotations"]["runbook_url"].endswith(f"docs/runbook.md#{name.lower()}")


def expressions() -> Iterator[tuple[str, str]]:
    board = json.loads(DASHBOARD.read_text("utf-8"))
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


@pytest.fixture
def series(tmp_path: Path) -> set[str]:
    """Return the names of all series that `/metrics` can have."""
    endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    with build(settings(tmp_path)) as app:
        families = list(Metrics(app, app.settings, role="serve").registry.collect())
    return {f"{family.name}{ending}" for family in families for ending in endings.get(family.type, ("",))}


def test_dashboard_rules_and_runbook_name_metrics_that_exist(series: set[str]) -> None:
    said = [expr for _, expr in expressions()] + [rule["expr"] for rule in alerts().values()] + [RUNBOOK]
    named = {name for text in said for name in re.findall(r"\b(?:duetime|process)_[a-z_]+", text)}
    families = {name.removesuffix("_bucket") for name in series}
    assert named - series - families == set()


def test_a_panel_shows_what_runs_cost_in_money() -> None:
    assert [title for title, expr in expressions() if "duetime_cost_total" in expr] == ["Cost an hour by action"]


def test_promtool_accepts_each_expression_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    found = [
        {"record": f"panel:{number}", "expr": expr.replace("$__rate_interval", "5m").replace("$job", ".*")}
        for number, (_, expr) in enumerate(expressions())
    ]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": found}]}), "utf-8")
    assert f"{len(found)} rules found" in run(promtool, "check", "rules", file)


def test_each_panel_says_what_it_shows_in_a_place_of_its_own() -> None:
    panels = [panel for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"] if panel["type"] != "row"]
    assert len({panel["title"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
    assert all(panel["targets"] for panel in some(panels))
    taken = [(x, y) for panel in panels for x, y in _cells(panel["gridPos"])]
    assert len(set(taken)) == len(taken)


def _cells(place: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    columns, lines = (range(place[at], place[at] + place[size]) for at, size in (("x", "w"), ("y", "h")))
    return product(columns, lines)
