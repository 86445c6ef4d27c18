"""A handler declares for order and admission how long it takes, and what it holds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.errors import HandlerError
from duetime.scheduler.handlers import Context, Link, handler
from duetime.scheduler.outcomes import Done

from tests.builders import a_task, with_deadline


def work(_ctx: Context) -> Done:
    return Done()


def test_a_handler_declares_what_it_needs_and_how_long_it_takes() -> None:
    declared = handler("render", needs={"gpu": 1, "key:studio": 1}, estimate=30)(work)

    assert declared.needs == {"gpu": 1, "key:studio": 1}
    assert declared.estimate == timedelta(seconds=30)


def test_without_a_word_it_needs_nothing_and_its_length_is_learned() -> None:
    declared = handler("render")(work)
    assert (declared.needs, declared.estimate) == ({}, None)


@pytest.mark.parametrize("needs", [{"gpu": 0}, {"gpu": 1.5}, {"gpu": True}, {"": 1}, {"two words": 1}, {1: 1}, ["gpu"]])
def test_odd_needs_are_refused_when_the_module_is_imported(needs: Any) -> None:
    with pytest.raises(HandlerError, match=r"handler render: needs .*needs=\{\"gpu\": 1\}"):
        handler("render", needs=needs)(work)


@pytest.mark.parametrize("estimate", [0, -1, True, "5 min", 10**6])
def test_an_odd_estimate_is_refused_when_the_module_is_imported(estimate: Any) -> None:
    with pytest.raises(HandlerError, match=r"handler render: estimate is .*; give seconds above 0"):
        handler("render", estimate=estimate)(work)


def test_a_handler_sees_when_it_must_be_finished() -> None:
    task, run = with_deadline(*a_task(), after=timedelta(hours=1))
    context = Context.of(task, run, worker="w", link=Link())

    assert context.deadline == context.scheduled_for + timedelta(hours=1)
