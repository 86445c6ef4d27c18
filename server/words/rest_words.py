"""Errors in the words of the REST API: each remedy as the request that a program can make."""

from __future__ import annotations

import re
from dataclasses import asdict

from duetime.scheduler import remedies
from duetime.scheduler.remedies import PlainWords, Remedy, Sentences

REST_SENTENCES: Sentences = {
    remedies.Resume: "Resume it with POST /v1/tasks/{task_id}/resume.",
    remedies.Cancel: "POST /v1/tasks/{task_id}/cancel cancels it.",
    remedies.ScheduleAnother: "Schedule a new task with POST /v1/tasks.",
    remedies.Inspect: "GET /v1/tasks/{task_id} shows the task as it is now.",
    remedies.ListAll: "GET /v1/tasks shows your tasks and their ids.",
    remedies.RepeatAtRevision: 'Read it with GET /v1/tasks/{task_id} and repeat with If-Match: "{revision}".',
    remedies.UseNewKey: "Use a new key for a new task, or PATCH /v1/tasks/{task_id} to change that one.",
    remedies.UseNewKeyForChange: remedies.UseNewKeyForChange.plain,
    remedies.MoveDeadline: "PATCH /v1/tasks/{task_id} takes a later when together with a later deadline.",
    remedies.MoveEarlier: "PATCH /v1/tasks/{task_id} takes an earlier when.",
    remedies.RunAgain: "Give when in the same request to run it again, or schedule another task with POST /v1/tasks.",
    remedies.GiveRule: "Give a new rule, with PATCH /v1/tasks/{task_id} and repeat.",
    remedies.RaiseMaxRuns: "Give max_runs={least} or more in the same request, or schedule a new task.",
    remedies.SplitCall: "Pause or skip in a request of its own, after the new time.",
    remedies.RunFailedSteps: "PATCH /v1/tasks/{task_id} with when=now runs the failed steps again.",
    remedies.UndoMany: "POST /v1/tasks/changes with change=undo and undo={token} takes all of it back.",
    remedies.UndoLater: "POST /v1/tasks/{task_id}/undo with undo={token} takes the later one back.",
    remedies.ListKeys: "GET /v1/keys lists all.",
    remedies.CreateKey: "Create a new one with POST /v1/keys.",
    remedies.ListSecrets: "GET /v1/secrets lists all.",
    remedies.ListWorkers: "GET /v1/workers lists all.",
    remedies.ListChains: "GET /v1/audit/heads names every tenant.",
    remedies.SetShadow: "PUT /v1/policy/shadow sets one.",
}


_LEFT_OUT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\b(?P<name>\w+)=null\b""")
"""A text, or an argument that a tool takes as absent; the document of the API has no null."""


class RestWords(PlainWords):
    """Arguments are those of the tools, and examples too, without nulls; a remedy needs the name of a route."""

    def example(self, passed: str, of: str = "") -> str:  # noqa: ARG002 - in no request a part has another one
        return _LEFT_OUT.sub(lambda found: f"without {found['name']}" if found["name"] else found[0], passed)

    def remedy(self, remedy: Remedy) -> str:
        return REST_SENTENCES[type(remedy)].format(**asdict(remedy))


REST_WORDS = RestWords()
