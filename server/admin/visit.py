"""A visit: one request of somebody who has logged in, as the functions of pages see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from duetime.scheduler.principal import Principal, Scope
from starlette.datastructures import ImmutableMultiDict

if TYPE_CHECKING:
    from duetime.scheduler.service import Scheduler
    from duetime.scheduler.store import Store
    from duetime.server.app import App

ROOT = "/admin"


@dataclass(frozen=True, slots=True)
class Visit:
    """The caller, what he asks for, and the application that answers.

    `path` is that of the page below `/admin`, `parts` are the variable ones of it. `query` and `form` have what was
    sent, by name. `zone` is the viewer's, as his browser says.
    """

    app: App
    principal: Principal
    path: str
    parts: Mapping[str, str]
    query: ImmutableMultiDict[str, str]
    form: ImmutableMultiDict[str, str]
    zone: str
    now: datetime

    @property
    def scheduler(self) -> Scheduler:
        return self.app.scheduler

    @property
    def store(self) -> Store:
        return self.app.store

    @property
    def tenant(self) -> str | None:
        """The tenant whose things are shown: an operator's choice, None for all of them, else the caller's own."""
        return (self.query.get("tenant") or None) if self.principal.operator else self.principal.tenant

    @property
    def reach(self) -> str:
        """The tenant as the service takes it: `*` for all of them."""
        return self.tenant or "*"

    @property
    def may_change(self) -> bool:
        """Whether the caller may change anything; without it a page has no buttons for that."""
        return self.principal.may(Scope.ADMIN)

    def acting_in(self, tenant: str) -> Principal:
        """Return the principal of a call that reads or changes what belongs to a tenant.

        An operator reaches into every tenant; for anybody else it is his own, in which a foreign id is not found.
        """
        return replace(self.principal, tenant=tenant) if self.principal.operator else self.principal

    def url(self, path: str, /, **query: object) -> str:
        """Return the address of an admin page; an operator's choice of a tenant goes along. None leaves out."""
        chosen = {"tenant": self.tenant} if self.principal.operator else {}
        return _address(path, {**chosen, **query})

    def here(self, **changes: object) -> str:
        """Return the address of this page with other values in its query; None removes one."""
        kept: dict[str, object] = {name: self.query.getlist(name) for name in self.query}
        return _address(self.path, {**kept, **changes})


def _address(path: str, query: Mapping[str, object]) -> str:
    given = {name: value for name, value in query.items() if value not in (None, "", [], ())}
    return ROOT + quote(path if path != "/" else "") + (f"?{urlencode(given, doseq=True)}" if given else "")
