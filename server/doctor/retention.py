"""The check of `duetime doctor` on retention: whether what is old was deleted, or what stopped that."""

from __future__ import annotations

from duetime.scheduler.dispatch.retention_run import kinds_with_rules
from duetime.scheduler.store import Store
from duetime.server.doctor.check import Check, CheckVerdict
from duetime.server.settings.model import Settings
from duetime.server.settings.options import retention_policy


def retention_check(store: Store, settings: Settings) -> Check:
    """Look whether the last sweep of each kind of rows that has a rule went to its end."""
    kinds, sweeps = kinds_with_rules(retention_policy(settings)), store.retention.last_sweeps()
    if not kinds:
        return Check("retention", CheckVerdict.OK, "there is no rule, so everything is kept")
    stopped = {kind: problem for kind in kinds if (sweep := sweeps.get(kind)) and (problem := sweep.problem)}
    if stopped:
        said = "; ".join(f"{kind} stopped ({problem})" for kind, problem in stopped.items())
        advice = "Old rows stay until that is mended: `duetime retention run` says whether it is."
        return Check("retention", CheckVerdict.WRONG, f"retention of {said}.", advice)
    have = "kind of rows has a rule" if len(kinds) == 1 else "kinds of rows have rules"
    unswept = [str(kind) for kind in kinds if kind not in sweeps]
    if unswept:
        said = f"{len(kinds)} {have}; no sweep has ended yet of {', '.join(unswept)}."
        advice = "A process that runs tasks sweeps once a day; `duetime retention run` does at once."
        return Check("retention", CheckVerdict.NOTE, said, advice)
    return Check("retention", CheckVerdict.OK, f"{len(kinds)} {have}, and nothing stopped the last sweep")
