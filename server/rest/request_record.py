"""An answered request, as the observers of the process are notified of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duetime.server.rest.problem import Problem

if TYPE_CHECKING:
    from duetime.server.telemetry.observers import Observers
    from starlette.responses import Response


def observe(observers: Observers, operation: str, answer: Response, seconds: float) -> None:
    """Notify of the answer to a request, and of the code of its refusal."""
    observers.answered(operation, str(answer.status_code), seconds)
    if isinstance(answer, Problem):
        observers.refused(answer.code)
