"""Reads recorded decisions: those on the runs of a tenant, without the runs of others."""

from __future__ import annotations

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.intake.validation import page_size, tenant_read
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.policies.decision_record import Decision, DecisionPage
from duetime.scheduler.store import Store


class DecisionNotFound(DuetimeError):
    """No recorded decision of the tenant has the id."""

    code = "not_found"

    def __init__(self, decision_id: str) -> None:
        super().__init__(
            f"no decision {decision_id[:40]!r}. A few takes a minute are recorded, and kept for a week at most.",
            argument="decision_id",
        )


class DecisionReader:
    """Read recorded decisions. Only operators see runs of other tenants, also among those that were not chosen."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def page(
        self,
        *,
        task_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        tenant: str | None = None,
        by: Principal = LOCAL,
    ) -> DecisionPage:
        """Return a page of what workers decided between runs, newest first.

        A few takes a minute are recorded, and kept for a week at most. An operator may name a tenant, or `*` for all.
        """
        wanted = tenant_read(by, tenant)
        found = self._store.decisions.page(wanted, limit=page_size(limit), task_id=task_id, cursor=cursor)
        return DecisionPage(tuple(_shown(each, by) for each in found.decisions), found.cursor)

    def get(self, decision_id: str, *, tenant: str | None = None, by: Principal = LOCAL) -> Decision:
        """Return one decision; raises DecisionNotFound."""
        found = self._store.decisions.get(tenant_read(by, tenant), decision_id)
        if found is None:
            raise DecisionNotFound(decision_id)
        return _shown(found, by)


def _shown(decision: Decision, by: Principal) -> Decision:
    return decision if by.may_read_all_of(None) else decision.shown_to(by.tenant)
