"""Each part of a process reports its own work by notices, and each notice is a line of the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import fields

import pytest
from duetime.scheduler.runtime import notices
from duetime.scheduler.runtime.notices import ProcessNotice
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.server.telemetry.notice_log import log_notice
from duetime.server.telemetry.observers import Observers

PARENTS = {ProcessNotice, notices.RunNotice, notices.HandlerUnstopped}
"""Notices that happen as one of their kinds only."""

VALUES: dict[str, object] = {"run_id": "r_1", "run_ids": ("r_1", "r_2"), "action": "sync", "actions": "sync"}
VALUES |= {"outcome": "Done", "error": OSError("no answer"), "damage": "it is damaged", "kind": "runs"}
NUMBERS: dict[str, float] = {"grace_s": 5.0, "count": 3, "epoch": 4, "left": 2, "seconds": 1.25, "deleted": 9}
NUMBERS |= {"longest_s": 0.5}


def kinds() -> Iterator[type[ProcessNotice]]:
    for kind in vars(notices).values():
        if isinstance(kind, type) and issubclass(kind, ProcessNotice) and kind not in PARENTS:
            yield kind


def made(kind: type[ProcessNotice]) -> ProcessNotice:
    return kind(**{field.name: {**VALUES, **NUMBERS}[field.name] for field in fields(kind)})


@pytest.mark.parametrize("kind", sorted(kinds(), key=str))
def test_each_notice_is_one_line_with_all_that_it_says(
    kind: type[ProcessNotice], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        log_notice(made(kind))
    (record,) = caplog.records
    said = record.getMessage()
    assert "%" not in said
    given = {field.name for field in fields(kind)}
    assert all(str(value) in said for name, value in NUMBERS.items() if name in given - {"grace_s", "seconds"})
    assert "run_id" not in given or "r_1" in said


def test_a_defect_outside_a_handler_has_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("no such thing")
    log_notice(notices.AttemptBroken("r_1", "sync", error))
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("ERROR", "run r_1 (sync) failed outside its handler")
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_the_observers_of_a_process_log_notices_and_an_observer_that_fails_disturbs_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: ProcessNotice) -> None:
        raise RuntimeError("the observer is broken")

    observers = Observers()
    observers.notices.insert(0, fail)
    with caplog.at_level(logging.INFO):
        observers.attached(RunNotifier()).noticed(notices.DrainBegun())
    assert caplog.messages == [
        "an observer of notices failed",
        "this worker drains: it takes no more runs until it is resumed",
    ]
