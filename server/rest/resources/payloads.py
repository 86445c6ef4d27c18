"""The answers that are no task: pydantic models, which document them, of what `--json` of the command line writes."""

from __future__ import annotations

from typing import Annotated, Literal

from duetime.scheduler.task import State
from pydantic import BaseModel, ConfigDict, Field


class RestPayload(BaseModel):
    """Part of an answer; absent values are left out."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)


class ExplanationPayload(RestPayload):
    """Why a task is not running: a sentence for each thing that it waits for.

    `stands` is its state, or what stands before that: `paused`, `stopping` or `blocked`.
    """

    schema_: Annotated[Literal["duetime.explanation/1"], Field(alias="schema")] = "duetime.explanation/1"
    task: str
    title: str
    state: State
    stands: str
    waiting_for: tuple[str, ...]
