"""Visitors of the admin page: who a cookie stands for at this moment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.principal import LOCAL, Principal, Scope
from duetime.server.admin.access.sessions import AdminSession, Sessions
from duetime.server.auth.access import GUARDED_SCOPE_KEY
from starlette.requests import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from duetime.scheduler.store import Store

COOKIE = "duetime_admin"


class NotLoggedIn(DuetimeError):
    """The request has no session, or one that has ended."""

    code = "not_logged_in"


class ScopeMissing(DuetimeError):
    """The caller lacks the scope that a page or a change needs."""

    code = "scope_missing"


@dataclass(frozen=True, slots=True)
class Visitors:
    """Finds the session of a request and whose it is. `operator_tenant` is the setting of that name."""

    sessions: Sessions
    store: Callable[[], Store]
    operator_tenant: str
    secure: bool

    @property
    def cookie(self) -> str:
        """The name of the cookie; with the prefix, browsers take it over TLS alone and from no other host."""
        return f"__Host-{COOKIE}" if self.secure else COOKIE

    def session_of(self, request: Request) -> AdminSession | None:
        """Return the session of a request, even if its key or its user is gone."""
        return self.sessions.read(request.cookies.get(self.cookie, ""))

    def find(self, request: Request) -> tuple[AdminSession, Principal]:
        """Return the session and its principal as of now. Raises NotLoggedIn."""
        session = self.session_of(request)
        if not request.scope[GUARDED_SCOPE_KEY]:
            return session or self.sessions.new(), _coming_by(LOCAL, request)
        found = self._principal(session) if session is not None else None
        if session is None or found is None:
            raise NotLoggedIn("Log in first.")
        operator = found.tenant == self.operator_tenant
        return session, _coming_by(replace(found, operator=operator), request)

    def _principal(self, session: AdminSession) -> Principal | None:
        if self.store().ended_sessions.has(session.id):
            return None
        if not session.key_id:
            known = session.tenant and session.user
            return Principal(session.tenant, session.user, frozenset(session.scopes)) if known else None
        store = self.store()
        key = store.api_keys.find(session.key_id)
        return key.principal if key is not None and key.state(store.now()) == "active" else None


def check_scope(principal: Principal, scope: Scope, *, operators: bool) -> None:
    """Raise ScopeMissing unless a principal has a scope, and is an operator where only those may."""
    if not principal.may(scope):
        raise ScopeMissing(f"This needs the scope {scope}, which your key or login does not have.")
    if operators and not principal.operator:
        raise ScopeMissing("All tenants share this, so it is for operators of the installation alone.")


def _coming_by(principal: Principal, request: Request) -> Principal:
    return replace(principal, via=way_of(request))


def way_of(request: Request) -> str:
    """Return the surface and the address of a request, as the history names them."""
    return f"admin {request.client.host if request.client else '-'}"
