"""`duetime doctor --deep`: reads the whole database, and reports rows that no statement of Duetime writes."""

from __future__ import annotations

from collections.abc import Iterator

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.store import Store
from duetime.server.doctor.check import Check, CheckVerdict
from duetime.server.doctor.database import damage_text

NAME, AUDIT = "integrity", "audit"
_CHANGED = "Somebody changed the database by hand: compare it with a backup, and find out who may write to it."


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


def audit_checks(store: Store) -> Iterator[Check]:
    """Return one check for each audit chain that is broken, or a single one when all hold."""
    verdicts = list(store.audit_chain.verify())
    for each in verdicts:
        if each.broken is not None:
            text = f"the audit chain of {each.tenant} is broken at entry {each.broken.entry:,}: {each.broken.wrong}."
            yield Check(AUDIT, CheckVerdict.WRONG, text, _CHANGED)
    if all(each.broken is None for each in verdicts):
        entries = sum(each.entries for each in verdicts)
        yield Check(AUDIT, CheckVerdict.OK, f"{entries:,} entries of {len(verdicts)} audit chains hold")
