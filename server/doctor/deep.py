"""`duetime doctor --deep`: reads the whole database, and reports rows that no statement of Duetime writes."""

from __future__ import annotations

from collections.abc import Iterator

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.store import Finding, Store
from duetime.server.doctor.check import Check, CheckVerdict

NAME = "integrity"


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
        yield Check(f"{NAME} of {finding.table}", CheckVerdict.WRONG, _said(finding), finding.remedy)
    if not examined.findings:
        yield Check(NAME, CheckVerdict.OK, f"{examined.rows:,} rows read, each as it should be")


def _said(finding: Finding) -> str:
    rows = "row" if finding.count == 1 else "rows"
    more = ", ..." if finding.count > len(finding.examples) else ""
    return f"{finding.count:,} {rows}: each {finding.broken} ({', '.join(finding.examples)}{more})."
