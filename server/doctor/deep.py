"""`duetime doctor --deep`: reads the whole database, and reports rows that no statement of Duetime writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.history.retention import RetentionRule
from duetime.scheduler.store import Store
from duetime.server.doctor.check import Check, CheckVerdict
from duetime.server.doctor.database import damage_text

NAME, AUDIT = "integrity", "audit"
_CHANGED = "Somebody changed the database by hand: compare it with a backup, and find out who may write to it."

_TOO_YOUNG = (
    "Unless a rule was shorter then, somebody else deleted them: `duetime audit verify` lists the days. "
    "Name a shorter rule of those days in the settings: [[retention]] with its last day as `until`."
)


def integrity_checks(store: Store) -> Iterator[Check]:
    """Return one check for each kind of damage, or a single one when there is none."""
    try:
        examined = store.integrity.examine()
    except StoreUnavailable as error:
        yield Check(
            NAME, CheckVerdict.WRONG, str(error), "Run `duetime doctor --deep` again when the database answers."
        )
        return
    for finding in examined.findings:
        yield Check(f"{NAME} of {finding.table}", CheckVerdict.WRONG, damage_text(finding), finding.remedy)
    if not examined.findings:
        yield Check(NAME, CheckVerdict.OK, f"{examined.rows:,} rows read, each as it should be")


def audit_checks(store: Store, rules: Sequence[RetentionRule]) -> Iterator[Check]:
    """Return one check for each audit chain that is broken or lacks young events, or a single one when all hold."""
    verdicts = list(store.audit_chain.verify(rules=rules))
    for each in verdicts:
        if each.broken is not None:
            text = f"the audit chain of {each.tenant} is broken at entry {each.broken.entry:,}: {each.broken.wrong}."
            yield Check(AUDIT, CheckVerdict.WRONG, text, _CHANGED)
        elif each.too_young:
            text = f"of {each.tenant}, {each.too_young:,} events were deleted that the rules of retention keep."
            yield Check(AUDIT, CheckVerdict.WRONG, text, _TOO_YOUNG)
    if all(each.holds for each in verdicts):
        entries = sum(each.entries for each in verdicts)
        yield Check(AUDIT, CheckVerdict.OK, f"{entries:,} entries of {len(verdicts)} audit chains hold")
