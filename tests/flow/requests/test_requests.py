"""A client gets the answers that `docs/requests.md` shows: every call of it is made, every answer compared."""

from __future__ import annotations

import asyncio

import pytest

from tests.builders import some
from tests.flow.requests.costs import KINDS, Reading, most_by_kind, read_page
from tests.flow.requests.page import PAGE, requests

MIN_REQUESTS_COUNT = 20
BUDGETS = {
    **dict.fromkeys(("reminder", "result", "wait for a task", "chain", "approval", "event", "watch"), (150, 250)),
    "list": (300, 400),
    "bulk": (250, 350),
    "history": (300, 500),
}
"""Tokens of text and of structure, by the kind of answer; `benchmarks/bench_tokens.py` prints what they cost."""


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    return asyncio.run(read_page(tmp_path_factory.mktemp("page")))


def test_a_client_gets_the_answers_of_the_page_and_no_others(reading: Reading) -> None:
    """`python -m tests.flow.requests` writes the answers again."""
    for request, call, answer in some(reading.answers):
        assert answer == call.answer, f"{request.title}: {call.tool}"


def test_an_answer_of_each_kind_keeps_to_its_budget(reading: Reading) -> None:
    assert BUDGETS.keys() == KINDS.keys()
    over = {
        kind: spent
        for kind, spent in most_by_kind(reading.costs).items()
        if any(part > most for part, most in zip(spent, BUDGETS[kind], strict=True))
    }
    assert over == {}


def test_the_page_has_twenty_requests_each_with_a_call() -> None:
    found = requests(PAGE.read_text("utf-8"))
    assert len(found) >= MIN_REQUESTS_COUNT
    assert all(request.steps for request in found)
