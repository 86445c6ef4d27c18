"""Errors in the words of the tools: each remedy as the call that an agent can make."""

from __future__ import annotations

from dataclasses import asdict

from duetime.scheduler import remedies
from duetime.scheduler.remedies import PlainWords, Remedy, Sentences

TOOL_SENTENCES: Sentences = {
    remedies.Resume: "Resume it with reschedule_task(pause=false).",
    remedies.Cancel: "cancel_task cancels it.",
    remedies.ScheduleAnother: "Schedule a new task with schedule_task.",
    remedies.Inspect: "get_task shows the task as it is now.",
    remedies.ListAll: "list_tasks shows your tasks and their ids.",
    remedies.RepeatAtRevision: "Read it with get_task and repeat the call with revision={revision}.",
    remedies.UseNewKey: "Use a new key for a new task, or reschedule_task to change that one.",
    remedies.UseNewKeyForChange: remedies.UseNewKeyForChange.plain,
    remedies.MoveDeadline: "reschedule_task takes a later when together with a later deadline.",
    remedies.MoveEarlier: "reschedule_task takes an earlier when.",
    remedies.RunAgain: "Give when in the same call to run it again, or schedule another task with schedule_task.",
    remedies.GiveRule: "Give a new rule, with reschedule_task(repeat=...).",
    remedies.RaiseMaxRuns: "Give max_runs={least} or more in the same call, or schedule a new task with schedule_task.",
    remedies.SplitCall: "Give pause or skip_next in a call of its own, after the new time.",
    remedies.RunFailedSteps: 'reschedule_task(task_id="{task_id}", when="now") runs the failed steps again.',
    remedies.UndoMany: 'change_tasks(change="undo", undo="{token}") takes all of it back.',
    remedies.UndoLater: 'act_on_task(action="undo", undo="{token}"), where that is a tool, takes the later one back.',
    **{remedy: remedy.plain for remedy in remedies.FOR_ADMINISTRATORS},
}


class ToolWords(PlainWords):
    """Arguments and examples are those of the tools already; only a remedy needs the name of a tool."""

    def remedy(self, remedy: Remedy) -> str:
        return TOOL_SENTENCES[type(remedy)].format(**asdict(remedy))


TOOL_WORDS = ToolWords()
