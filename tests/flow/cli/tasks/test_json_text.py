"""JSON that is refused on the command line: where it broke, and what was probably meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from duetime.server.cli.formats.json_text import corrected

from tests.flow.cli.tasks.test_tasks import Run, cli

__all__ = ["cli"]  # the fixture


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("{'url': 'https://example.com/a', timeout: 5,}", {"url": "https://example.com/a", "timeout": 5}),
        ("{message: Call John}", {"message": "Call John"}),
        ("{message: Call John", {"message": "Call John"}),
        ("{url: https://example.com/a?b=1, deep: True, none: None}", {"url": "https://example.com/a?b=1"}),
        ('{"say": "it\'s 9"} ', {"say": "it's 9"}),
        ("{'say': 'it\\'s \"9\"'}", {"say": 'it\'s "9"'}),
        ('{"a": [1, 2,, {b: null}', {"a": [1, 2, {"b": None}]}),
        ('{"line": "one\ntwo"}', {"line": "one\ntwo"}),
        ("{order.id=7}", {"order.id": 7}),
    ],
)
def test_text_that_is_nearly_json_is_read_as_it_was_meant(typed: str, meant: dict[str, Any]) -> None:
    found = corrected(typed)
    assert isinstance(found, dict)
    assert {**found, **meant} == found


@pytest.mark.parametrize(
    "typed", ['{"a": 1} or so', "{1", '{"a" 1}', "{'a': 'b}", "{]}", "", "{a: 1}" + " " * 200 + "x"]
)
def test_text_that_may_mean_anything_is_not_guessed(typed: str) -> None:
    assert corrected(typed) is None


NEARLY = "{'Kunde': 'Müller', nr: 5,}"
MEANT = '\'{"Kunde": "Müller", "nr": 5}\''


@pytest.mark.parametrize(
    "option", ["--payload", "--expect", "--on-failure", "--origin", "--valid-output", "--wait-for"]
)
def test_a_refused_object_of_a_task_says_where_it_broke_and_is_shown_corrected(cli: Run, option: str) -> None:
    ended = cli("schedule", "Sync", "--when", "in 1 h", "--action", "webhook", option, NEARLY)
    assert ended.code == 2
    assert f"duetime: {option}: it is not JSON: " in ended.err
    assert "at line 1, column 2, near \"'Kunde': 'Müller', n\"." in ended.err
    assert ended.err.endswith(f"Example: {option} {MEANT}\n")


def test_the_data_of_an_event_and_a_pool_are_shown_corrected_too(cli: Run) -> None:
    assert cli("event", "send", "paid", "--data", "{order: 7}").err.endswith("Example: --data '{\"order\": 7}'\n")
    pool = cli("pools", "set", "gpu", '{"capacity": 1')
    assert "JSON: it is not JSON: " in pool.err
    assert "at line 1, column 15, where it ends." in pool.err
    assert pool.err.endswith("Example: '{\"capacity\": 1}'\n")


UNCLEAR = {
    '{"capacity": 1, "capacity": 100}': "it names 'capacity' twice",
    '{"a": {"capacity": 1, "capacity": 100}}': "it names 'capacity' twice",
    '{"capacity": NaN}': "NaN is not a number of JSON",
    "[" * 60_000: "it is nested too deeply; 100 levels are the limit",
    '{"a": ' * 900 + "1" + "}" * 900: "it is nested too deeply; 100 levels are the limit",
}


@pytest.mark.parametrize("text", UNCLEAR, ids=UNCLEAR.values())
def test_a_text_that_readers_of_json_take_differently_is_refused(cli: Run, tmp_path: Path, text: str) -> None:
    said = UNCLEAR[text]
    assert f"JSON: {said}. " in cli("pools", "set", "gpu", text).err
    assert f"--payload: {said}. " in cli("schedule", "Sync", "--when", "in 1 h", "--payload", text).err
    (file := tmp_path / "policy.json").write_text(text)
    assert said in cli("policy", "shadow", str(file)).err


@pytest.mark.parametrize("number", ["1_000", "١٢", "0x10", "inf"])
def test_a_number_of_the_policy_is_one_that_json_has(cli: Run, number: str) -> None:
    assert cli("policy", "set", f"patience.low={number}", "--dry-run").code == 2
    assert cli("policy", "set", "patience.low=1e2", "--dry-run").code == 0


def test_a_text_that_cannot_be_corrected_is_refused_with_an_example_of_the_option(cli: Run) -> None:
    refused = cli("schedule", "Sync", "--when", "in 1 h", "--expect", '{"field" 1}')
    assert "line 1, column 10, near '1}'" in refused.err
    assert refused.err.endswith('Example: --expect \'{"field": "order_id"}\'\n')


def test_a_file_of_steps_says_where_it_broke_and_is_shown_corrected(cli: Run, tmp_path: Path) -> None:
    file = tmp_path / "steps.json"
    file.write_text('[{"name": "fetch"},\n {"name": "send" "after": ["fetch"]}]', "utf-8")
    unclear = cli("schedule", "Sync", "--steps", str(file))
    assert 'at line 2, column 18, near \'"after": ["fetch"]}]\'' in unclear.err
    file.write_text("[{'name': 'fetch'},\n {'name': 'send', 'after': ['fetch'],}]", "utf-8")
    corrected_file = cli("schedule", "Sync", "--steps", str(file))
    meant = json.dumps([{"name": "fetch"}, {"name": "send", "after": ["fetch"]}])
    assert corrected_file.err.endswith(f"Example: --steps chain.json, a file with {meant}\n")
    assert (unclear.code, corrected_file.code) == (2, 2)


@pytest.mark.parametrize(
    "payload",
    ["{url: 'https://example.com', token: 'sk-hunter2'}", '{"password": hunter2hunter2}', '{"token": "x" hunter2}'],
)
def test_a_text_with_a_value_that_is_named_like_a_secret_is_not_repeated(cli: Run, payload: str) -> None:
    ended = cli("schedule", "Sync", "--when", "in 1 h", "--payload", payload)
    assert "hunter2" not in ended.err
    assert "at line 1, column" in ended.err
    assert ended.err.endswith('Example: --payload \'{"message": "Call John"}\'\n')
