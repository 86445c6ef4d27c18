"""Bring back one defect at a time in a copy of the code, and show that a walk of series, chains or waits finds it.

Run from the top: `python tests/series/mutations.py [WORD ...]`, with words of those that are wanted. Exits 1 when a
mutation survives.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERIES, CHAINS = "tests/series/test_series_walk.py", "tests/series/test_chain_walk.py"
GENERATIONS = "tests/series/test_generation_walk.py"
APPROVALS = "tests/contracts/store/approvals/test_store_approval_walks.py"
WAITS = "tests/contracts/store/waits/test_store_recurring_wait_walks.py"
MAX_SHOWN_CHARS = 110


@dataclass(frozen=True)
class Mutation:
    """A defect: in each file what is replaced, and by what; and the walk that finds it."""

    what: str
    edits: Sequence[tuple[str, str, str]]
    suite: str = SERIES


MUTATIONS = (
    Mutation(
        "a move past later occurrences loses them",
        (("rules/changes.py", "if not by_rule and (past := move_past_next", "if by_rule and (past := move_past_next"),),
    ),
    Mutation(
        "a moved occurrence runs at the same time as another one of its series",
        (
            (
                "series/moved_overlap.py",
                "each: (each.scheduled_for, each.id), default=None)",
                "each: each.id, default=None) and None",
            ),
        ),
    ),
    Mutation(
        "the end of a run lets nothing go that waits for it",
        (("endings/turns.py", "in TERMINAL and each.claim.repeat]", "in TERMINAL and not each.claim.repeat]"),),
    ),
    Mutation(
        "an open run gives way to no moved one",
        (
            (
                "series/moved_overlap.py",
                "return Lot.OVERTAKES if overlap is Overlap.CANCEL_OTHER else Lot.WAITS",
                "return Lot.WAITS",
            ),
        ),
    ),
    Mutation(
        "a change of a task leaves what waits for another run of its series",
        (("statements/ready_runs.py", "or after.paused or before.side_runs:", "or after.paused:"),),
    ),
    Mutation(
        "an occurrence that falls on another one runs twice",
        (("series/moved_occurrence.py", "return any(following(record.task", "return not any(following(record.task"),),
    ),
    Mutation(
        "a snooze takes the place of an occurrence that was moved past others",
        (("series/moved_occurrence.py", "is State.SCHEDULED and not is_moved(run))", "is State.SCHEDULED)"),),
    ),
    Mutation(
        "the undo of a move past others leaves the moved run",
        (
            (
                "changes/actions.py",
                "cancelled_side_runs=begun, kind=kind)\n\n\ndef _latest",
                "kind=kind)\n\n\ndef _latest",
            ),
        ),
    ),
    Mutation(
        "undo gives two runs of one time the same generation",
        (
            (
                "statements/change.py",
                "with_overtake_time(task, places.placed(connection, [next_run])[0])",
                "with_overtake_time(task, next_run)",
            ),
        ),
    ),
    Mutation(
        "a new rule with another end does not look at max_runs",
        (
            (
                "changes/series.py",
                '    check_runs_left(ruled.task, run, "repeat")\n    if request.until is None:\n',
                '    if request.until is None:\n        check_runs_left(ruled.task, run, "repeat")\n',
            ),
        ),
    ),
    Mutation(
        "the rule or the zone that a series has takes the move of an occurrence back",
        (
            (
                "changes/series.py",
                "if request.when is None and _keeps_its_run(draft.record, rule, now):",
                "if request.when is not None and _keeps_its_run(draft.record, rule, now):",
            ),
        ),
    ),
    Mutation(
        "a series that starts again counts its last run twice",
        (("rules/changes.py", "number=run.number + 1) if task", "number=run.number) if task"),),
    ),
    Mutation(
        "side runs are only seen while the task recurs",
        (("statements/read.py", "for task in of if task.revision > 1]", "for task in of if task.repeat]"),),
    ),
    Mutation(
        "what was snoozed does not take the place of a series that has ended",
        (
            (
                "statements/side_runs.py",
                "    if not ending:\n        return\n",
                "    if ending is not None:\n        return\n",
            ),
        ),
    ),
    Mutation(
        "a run that waits for its second attempt is skipped after a pause",
        (
            (
                "rules/changes.py",
                "    if task.repeat is None or due >= now or has_started(run) or",
                "    if task.repeat is None or due >= now or run.state is not State.SCHEDULED or",
            ),
        ),
    ),
    Mutation(
        "a recurrence that was cancelled while it ran comes back with a time",
        (
            (
                "changes/reschedule.py",
                "    return draft.with_change(moved)",
                "    return draft.with_change(replace(moved, task=task))",
            ),
        ),
    ),
    Mutation(
        "a later end does nothing when the series is over",
        (("changes/end.py", "if change.coming.state in TERMINAL else", "if change.coming.state is None else"),),
    ),
    Mutation(
        "a run that gives way to the next one ends its series",
        (("rules/series/overtake.py", " is State.CANCELLED) and not run.gives_way", " is State.CANCELLED)"),),
    ),
    Mutation(
        "a cancel of a run that gives way already does not end its series",
        (
            (
                "rules/changes.py",
                "replace(run, cancel_requested=True, overtaken_at=None)",
                "replace(run, cancel_requested=True)",
            ),
        ),
    ),
    Mutation(
        "a run that waits for its next attempt does not give way before that",
        (("rules/series/overtake.py", "    if run.state is State.RUNNING:", "    if run.started_at is not None:"),),
    ),
    Mutation(
        "of several occurrences that fell due, the first one overtakes",
        (("rules/occurrences.py", "        newest = found.instant\n", "        found.instant\n"),),
    ),
    Mutation(
        "what was missed while nothing ran overtakes the run that starts late",
        (("rules/series/overtake.py", "return run.first_ready_at or run.scheduled_for", "return run.scheduled_for"),),
    ),
    Mutation(
        "a run is overtaken while its task is paused",
        (
            ("series/timers.py", " AND NOT runs.paused", ""),
            ("series/timers.py", "_MAY_HAVE_STARTED, tasks.c.paused == false())", "_MAY_HAVE_STARTED)"),
            ("series/timers.py", "Select, false, literal_column", "Select, literal_column"),
        ),
    ),
    Mutation(
        "a run next to which another began is asked to stop",
        (
            (
                "rules/series/overtake.py",
                "        return Change(task, run, next_run=coming, as_side_run=True",
                "        return Change(task, replace(run, cancel_requested=True), next_run=coming, as_side_run=True",
            ),
        ),
    ),
    Mutation(
        "an older run that ends next to a newer one lets its series go on twice",
        (("series/continuation.py", "not run.current or ends_series(run)", "ends_series(run)"),),
    ),
    Mutation(
        "an occurrence that overtakes does not count for max_runs",
        (
            (
                "rules/occurrences.py",
                "    return coming if newest == coming.scheduled_for else next_run(task, run, newest - MICROSECOND)",
                "    return replace(coming, number=run.number, scheduled_for=newest, wake_at=newest + delay_of(task))",
            ),
        ),
    ),
    Mutation(
        "buffer_one runs the newest of what fell due, not the first",
        (
            (
                "series/overlap.py",
                "    coming = next_run(task, run, opened)\n    if",
                "    coming = next_run(task, run, now)\n    if",
            ),
        ),
    ),
    Mutation(
        "buffer_all forgets what falls due before it is looked at",
        (
            (
                "series/overlap.py",
                "coming.scheduled_for if overlap is Overlap.BUFFER_ALL else None",
                "None",
            ),
        ),
    ),
    Mutation(
        "what fails after it was asked to stop is a failure",
        (
            (
                "statements/settle.py",
                "    if claim.cancel_requested and settlement.to not in",
                "    if False and settlement.to not in",
            ),
        ),
    ),
    Mutation(
        "a replay leaves the dead letter open",
        (
            (
                "dead_letters/letters.py",
                "            _close(connection, tenant, run_id, now, replayed_as=replayed.id, replay_number=number)\n",
                "            _ = number\n",
            ),
        ),
    ),
    Mutation(
        "the undo of a replay leaves the dead letter closed",
        (
            (
                "endings/letters.py",
                "if change.kind is EventKind.UNDONE and change.cancelled_side_runs:",
                "if change.kind is None:",
            ),
        ),
    ),
    Mutation(
        "a discarded letter stays open",
        (
            (
                "dead_letters/letters.py",
                "            _close(connection, tenant, run_id, now)\n            entries",
                "            entries",
            ),
        ),
    ),
    Mutation(
        "a replay gives a series another payload",
        (
            (
                "letters/dead_letters.py",
                "        if task.repeat is not None or record.renewed:\n",
                "        if task.repeat is None and record.renewed:\n",
            ),
        ),
    ),
    Mutation(
        "a replay of many runs again what runs again already",
        (
            (
                "changes/bulk.py",
                "    if any(run.repeats == again for run in record.side_runs):",
                "    if any(run.id == again for run in record.side_runs):",
            ),
        ),
    ),
    Mutation(
        "a change of labels keeps the old ones",
        (
            (
                "changes/reschedule.py",
                "labels=task.labels if request.labels is None else tuple(dict.fromkeys(request.labels)),",
                "labels=tuple(dict.fromkeys((*task.labels, *(request.labels or ())))),",
            ),
        ),
    ),
    Mutation(
        "a change of channels is lost",
        (
            (
                "changes/reschedule.py",
                "deliver_to=task.deliver_to if channels is None else channels,",
                "deliver_to=task.deliver_to or channels or (),",
            ),
        ),
    ),
    Mutation(
        "a change of retries is lost",
        (("changes/reschedule.py", "else as_policy(request.retry) or task.retry,", "else task.retry,"),),
    ),
    Mutation(
        "a change of the title is lost",
        (("changes/reschedule.py", "title=title or task.title,", 'title=task.title or title or "",'),),
    ),
    Mutation(
        "what is expected can be changed and not removed",
        (
            (
                "changes/terms.py",
                "expect = task.expect if request.expect is None else request.expect",
                "expect = request.expect or task.expect",
            ),
        ),
    ),
    Mutation(
        "the undo of a change keeps what follows from a failure",
        (
            (
                "changes/actions.py",
                "was, kind = replace(task, **last.task), EventKind.UNDONE",
                'was, kind = replace(task, **{**last.task, "on_failure": task.on_failure}), EventKind.UNDONE',
            ),
        ),
    ),
    Mutation(
        "an attempt ends on the terms of a change that came after its start",
        (
            (
                "rules/settlement.py",
                "retry=began.retry, expect=began.expect, on_failure=began.on_failure)",
                "retry=began.retry)",
            ),
        ),
    ),
    Mutation(
        "done reads nothing",
        (
            (
                "service/task_changes.py",
                "read = self._store.inbox.mark_read(by.tenant, by.user, task_id=task_id)",
                "read = self._store.inbox.mark_read(by.tenant, by.user, [], task_id=task_id)",
            ),
        ),
    ),
    Mutation(
        "an attempt that is tried again lets a task follow",
        (
            (
                "failures/follow_up.py",
                "    if ON_FAILURE_RUN in on_failure and failed:",
                "    if ON_FAILURE_RUN in on_failure:",
            ),
        ),
    ),
    Mutation(
        "nothing follows from a run without what it should give",
        (
            (
                "failures/follow_up.py",
                "    return settlement.unverified or settlement.to in",
                "    return settlement.to in",
            ),
        ),
    ),
    Mutation(
        "a new rule brings skipped days back",
        (("changes/series.py", "rule.after(before[-1].instant) if is_same", "None if is_same"),),
    ),
    Mutation(
        "an attempt that is tried again raises no tier",
        (("failures/follow_up.py", "(failed or settlement.kind is EventKind.RETRYING)", "failed"),),
    ),
    Mutation(
        "a no to a chain that repeats ends it",
        (
            (
                "series/occurrence_approval.py",
                "if coming.next_run or before_run(task).asks_in_chain else",
                "if coming.next_run else",
            ),
        ),
        CHAINS,
    ),
    Mutation(
        "a generation that nobody wanted counts as one",
        (
            (
                "generations/generation_rows.py",
                "counts = any(run.state is not State.SKIPPED for _, run in self.steps)",
                "counts = bool(self.steps)",
            ),
        ),
        CHAINS,
    ),
    Mutation(
        "a step of a generation that was approved loses its time",
        (("series/before_run.py", " or (in_chain and run.first_ready_at is not None)", ""),),
        CHAINS,
    ),
    Mutation(
        "a generation that is skipped leaves no run of its first steps",
        (
            (
                "series/overlap.py",
                "now) if overlapped else ())",
                "now) if not coming else ())",
            ),
        ),
        GENERATIONS,
    ),
    Mutation(
        "more than one generation waits for the open one where one may wait",
        (
            (
                "series/overlap.py",
                "overlap is Overlap.BUFFER_ALL else None)",
                "overlap is Overlap.BUFFER_ONE else None)",
            ),
        ),
        GENERATIONS,
    ),
    Mutation(
        "a generation that waited is open since it started, and loses what fell due before that",
        (("series/overlap.py", "coming.scheduled_for if overlap is Overlap.BUFFER_ALL else None)", "None)"),),
        GENERATIONS,
    ),
    Mutation(
        "a generation gives way but for the steps that wait",
        (
            (
                "series/generation_overtake.py",
                "        if run.ended_at is None and not run.cancel_requested:",
                "        if run.ended_at is None and not run.cancel_requested and run.state is not State.WAITING:",
            ),
        ),
        GENERATIONS,
    ),
    Mutation(
        "a step follows the run of another generation",
        (
            (
                "generations/later_steps.py",
                'runs.c.number == bindparam("of_number"))',
                'runs.c.number >= bindparam("of_number"))',
            ),
        ),
        GENERATIONS,
    ),
    Mutation(
        "what waits in an overtaken generation is not ended with what it comes after",
        (
            (
                "generations/side_generations.py",
                "[each for each in judged if each.verdict.to in TERMINAL], now)",
                "[each for each in judged if each.verdict.to is State.EXPIRED], now)",
            ),
        ),
        GENERATIONS,
    ),
    Mutation(
        "an undone cancel lets a step of an overtaken generation go that waited",
        (("statements/side_runs.py", "waits=had_waited)", "waits=False)"),),
        GENERATIONS,
    ),
    Mutation(
        "the next generation is not asked for",
        (
            (
                "generations/generation_rows.py",
                "        missed=coming.missed,\n",
                "        missed=coming.missed,\n        attempt=1,\n",
            ),
        ),
        CHAINS,
    ),
    Mutation(
        "run now goes around a question",
        (("approvals/questions.py", "    if (started or resumed) and", "    if resumed and"),),
        CHAINS,
    ),
    Mutation(
        "an undone cancel asks once more for what was approved",
        (
            (
                "waits/approval.py",
                "    if approval.answer is ApprovalAnswer.APPROVE and old.started_at is None:\n",
                "    if approval.answer is ApprovalAnswer.APPROVE and old.started_at is not None:\n",
            ),
        ),
        CHAINS,
    ),
    Mutation(
        "what has run runs again without a question",
        (
            (
                "waits/approval.py",
                "    if approval.answer is ApprovalAnswer.APPROVE and old.started_at is None:\n",
                "    if approval.answer is ApprovalAnswer.APPROVE:\n",
            ),
        ),
        CHAINS,
    ),
    Mutation(
        "the default decides while a step is paused",
        (
            (
                "chains/approval_answers.py",
                '.where(questions.OPEN_APPROVAL, approvals.c.ends_at <= bindparam("now"), tasks.c.paused == false())',
                '.where(questions.OPEN_APPROVAL, approvals.c.ends_at <= bindparam("now"))',
            ),
        ),
        CHAINS,
    ),
    Mutation(
        "a question outlives its step",
        (
            (
                "approvals/questions.py",
                "if state in _BEFORE_START], now, reason=why)",
                "if state is State.SUSPENDED], now, reason=why)",
            ),
        ),
        CHAINS,
    ),
    Mutation(
        "a no to a chain answers its first step alone",
        (("chains/approvals.py", "            for each in unanswered:", "            for each in unanswered[:1]:"),),
        CHAINS,
    ),
    Mutation(
        "the undo of a no to a chain asks its first step alone",
        (
            (
                "chains/chain_approvals.py",
                "        return [each.task.id for each in together if each.run.id in rejected]",
                "        return [each.task.id for each in together if each.run.id in rejected][:1]",
            ),
        ),
        CHAINS,
    ),
    Mutation(
        "what ended with another step ends again when somebody runs it",
        (("endings/past_ends.py", "for at in (wanted.get(task_id), began)", "for at in (began,)"),),
        CHAINS,
    ),
    Mutation(
        "a step that waits for its event can be moved",
        (
            (
                "signals/run_waits.py",
                "    if found is not None and found.is_open and found.wait.until > now:",
                "    if found is not None and found.is_open and found.wait.until < now:",
            ),
        ),
        CHAINS,
    ),
    Mutation(
        "an event wakes no attempt",
        (
            (
                "signals/run_waits.py",
                "    suspended = among(connection, runs.c.id, [row.id for row in found])",
                "    suspended = among(connection, runs.c.id, [row.id for row in found[1:]])",
            ),
        ),
        CHAINS,
    ),
    Mutation(
        "a step that waits for its event keeps the others of its chain from being moved",
        (
            (
                "bulk/change_sequence.py",
                "    except (Refused, InvalidArgument, InvalidArguments, UnreadableTask) as refused:\n",
                "    except (InvalidArgument, InvalidArguments, UnreadableTask) as refused:\n",
            ),
        ),
        CHAINS,
    ),
    Mutation(
        "the replay of an earlier generation takes the place of a step that has given way",
        (("statements/read.py", "and not was_cancelled(run)", "and run.state is not State.CANCELLED"),),
        GENERATIONS,
    ),
    Mutation(
        "a pause of a chain lets the next generation start with the steps that had ended",
        (
            (
                "changes/pause.py",
                "        if record.task.id not in held or record.run.state not in TERMINAL:",
                "        if record.task.id not in held or record.run.state in TERMINAL:",
            ),
        ),
        GENERATIONS,
    ),
    Mutation(
        "an older generation loses its yes where its cancel is taken back",
        (
            (
                "statements/change.py",
                "    questions.carry_over(connection, [(stored.task, *each) for each in again], stored.at)\n",
                "",
            ),
        ),
        GENERATIONS,
    ),
    Mutation(
        "the default answer is given while its task is paused",
        (("chains/approval_answers.py", '= bindparam("now"), tasks.c.paused == false())', '= bindparam("now"))'),),
        APPROVALS,
    ),
    Mutation(
        "the event that let one occurrence go counts for the next one as well",
        (("signals/own_waits.py", "max(wait.since, had + _JUST_BEHIND)", "max(wait.since, had)"),),
        WAITS,
    ),
    Mutation(
        "the undo of a skip keeps the wait of the occurrence whose place it leaves",
        (
            (
                "signals/own_waits.py",
                '        connection.execute(_FORGET, {"waiter_ids": [run.id, *further([run.id])]})\n        _inherit',
                "        _inherit",
            ),
        ),
        WAITS,
    ),
)


def copied(home: Path) -> Path:
    """Copy the code to where PYTHONPATH finds it first."""
    leave = shutil.ignore_patterns("__pycache__", "duetime", "node_modules")
    shutil.copytree(ROOT / "server" / "duetime", home / "duetime", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("scheduler", "server", "tools", "widgets"):
        shutil.copytree(ROOT / folder, home / "duetime" / folder, ignore=leave)
    return home / "duetime" / "scheduler"


def planted(code: Path, mutation: Mutation) -> dict[Path, str]:
    """Return the sources with the defect. Raises RuntimeError for one that does not fit the code any more."""
    sources: dict[Path, str] = {}
    for name, before, after in mutation.edits:
        files = [*code.rglob(name)]
        source = sources.get(files[0], files[0].read_text()) if len(files) == 1 else ""
        if source.count(before) != 1:
            raise RuntimeError(f"{mutation.what}: {before!r} is not in one {name} once")
        sources[files[0]] = source.replace(before, after)
    return sources


def survives(mutation: Mutation | None) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        code = copied(Path(folder))
        for file, source in planted(code, mutation).items() if mutation else ():
            file.write_text(source)
        suite = mutation.suite if mutation else SERIES
        command = [
            sys.executable,
            "-m",
            "pytest",
            suite,
            "-k",
            "whatever or model",
            "-q",
            "-x",
            "--tb=line",
            "-p",
            "no:cacheprovider",
        ]
        env = {**os.environ, "PYTHONPATH": folder}
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 1}:
        raise RuntimeError(done.stdout + done.stderr)
    found = re.search(r"^E +(?:\w+\.)*(.+)", done.stdout, re.MULTILINE)
    said = "survives" if done.returncode == 0 else f"found: {found[1][:MAX_SHOWN_CHARS] if found else ''}"
    sys.stdout.write(f"{mutation.what if mutation else 'unchanged'}: {said}\n")
    sys.stdout.flush()
    return done.returncode == 0


def main() -> int:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if "--mutations-only" not in sys.argv and not survives(None):
        return 1
    return int(bool([mutation for mutation in chosen(words) if survives(mutation)]))


def chosen(words: Sequence[str]) -> Sequence[Mutation]:
    return [each for each in MUTATIONS if all(word in each.what for word in words)]


if __name__ == "__main__":
    sys.exit(main())
