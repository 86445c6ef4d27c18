"""A visit: one request of somebody who has logged in, as the functions of pages see it."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlencode

from duetime.scheduler.principal import ALL_TENANTS, Principal, Scope
from starlette.datastructures import ImmutableMultiDict

if TYPE_CHECKING:
    from duetime.scheduler.history.run_detail import RunDetail
    from duetime.scheduler.service.scheduler import Scheduler
    from duetime.scheduler.store import Store
    from duetime.server.app import App

ROOT = "/admin"
ADMIN_READ_PAUSE_RATIO: Final = 30
MAX_VALUES_KEPT: Final = 200
PICK_PARAMETERS: Final = frozenset({"change", "pick", "to"})
"""Parameters of the address that ask the question of a change of picked runs."""

QUESTION_NAMES: Final = PICK_PARAMETERS | {"close"}
"""Parameters of an address that ask a question before many things are changed."""

T = TypeVar("T")


class KeptReads:
    """A cache of what pages read; slower reads are kept longer. Thread-safe; the oldest entries are dropped first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: Hashable, read: Callable[[], T]) -> T:
        """Return the value of this name: it is read for at most one part in ADMIN_READ_PAUSE_RATIO of the time."""
        began = self._clock()
        with self._lock:
            until, known = self._kept.get(name, (began, None))
        if began < until:
            found: T = known
            return found
        found = read()
        ended = self._clock()
        with self._lock:
            self._kept[name] = (ended + ADMIN_READ_PAUSE_RATIO * (ended - began), found)
            self._kept.move_to_end(name)
            if len(self._kept) > MAX_VALUES_KEPT:
                self._kept.popitem(last=False)
        return found


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
    kept: KeptReads = field(default_factory=KeptReads)

    @property
    def scheduler(self) -> Scheduler:
        return self.app.scheduler

    @property
    def store(self) -> Store:
        return self.app.store

    @property
    def tenant(self) -> str | None:
        """The tenant whose things are shown: an operator's choice, None for all of them, else the caller's own."""
        if not self.principal.operator:
            return self.principal.tenant
        chosen = self.query.get("tenant")
        return None if chosen in (None, "", ALL_TENANTS) else chosen

    @property
    def reach(self) -> str:
        """The tenant as the service takes it: `*` for all of them."""
        return self.tenant or ALL_TENANTS

    @property
    def may_change(self) -> bool:
        """Whether the caller may change anything; without it a page has no buttons for that."""
        return self.principal.may(Scope.ADMIN)

    def acting_in(self, tenant: str) -> Principal:
        """Return the principal of a call that reads or changes what belongs to a tenant.

        An operator reaches into every tenant; for anybody else it is his own, in which a foreign id is not found.
        """
        return replace(self.principal, tenant=tenant) if self.principal.operator else self.principal

    def run(self, run_id: str) -> RunDetail:
        """Find a run by its id alone: an operator may follow a link into any tenant. Raises RunNotFound."""
        tenant = ALL_TENANTS if self.principal.operator else None
        return self.scheduler.past.run(run_id, tenant=tenant, by=self.principal)

    def url(self, path: str, /, **query: object) -> str:
        """Return the address of an admin page; an operator's choice of a tenant goes along. None leaves out."""
        chosen = {"tenant": self.tenant} if self.principal.operator else {}
        return _address(path, {**chosen, **query})

    def without_tenant(self) -> Visit:
        """Return the visit without a choice of a tenant, so that its links lead on from a wrong one."""
        others = [(name, value) for name, value in self.query.multi_items() if name != "tenant"]
        return replace(self, query=ImmutableMultiDict(others))

    def here(self, **changes: object) -> str:
        """Return the address of this page with other values in its query; None removes one.

        A question that the page asks, before it changes many, is not asked there.
        """
        kept: dict[str, object] = {name: self.query.getlist(name) for name in self.query if name not in QUESTION_NAMES}
        return _address(self.path, {**kept, **changes})


def _address(path: str, query: Mapping[str, object]) -> str:
    given = {name: value for name, value in query.items() if value not in (None, "", [], ())}
    return ROOT + quote(path if path != "/" else "") + (f"?{urlencode(given, doseq=True)}" if given else "")
