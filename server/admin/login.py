"""Logging in by an API key, and logging out."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote

from duetime.scheduler.principal import Scope
from duetime.server.admin.access.login_limits import LoginLimits
from duetime.server.admin.access.visitors import NotLoggedIn, way_of
from duetime.server.admin.failures import shielded
from duetime.server.admin.formats import span
from duetime.server.admin.page_request import ROOT
from duetime.server.admin.protection import ForeignForm, check_own_page, protected
from duetime.server.admin.site import LOGIN, UNSENT, AdminSite, path_of, sent_form
from duetime.server.auth.key_format import KeyText
from duetime.tools.threads import cross
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request

_UNSENT_TEXT = "Your session had ended, so nothing was done. Log in, and send the form again."
_WRONG = "This key is not right: it is unknown, expired or revoked."
_NO_ADMIN = "This key may not see the admin page: it lacks the scope admin:read. `duetime keys create` makes one."


@dataclass(frozen=True, slots=True)
class LoginRefusal:
    """A refused login: the sentence for who tried, and the reason for the audit log.

    It is no guess where any page of the web could have made the browser send it: such pages lock no address out.
    """

    reason: str
    status: HTTPStatus
    recorded: str
    key_id: str | None = None
    is_guess: bool = True


class Login:
    """The login page. `ways` are further ways to log in: a sentence and an address."""

    def __init__(self, site: AdminSite, *, keys: bool, ways: tuple[tuple[str, str], ...] = ()) -> None:
        self._site = site
        self._keys = keys
        self._ways = ways
        self._limits = LoginLimits()

    def routes(self) -> list[Route]:
        return [
            Route(LOGIN, shielded(self.show), methods=["GET"]),
            Route(LOGIN, shielded(self.enter), methods=["POST"]),
            Route(f"{ROOT}/logout", shielded(self.leave), methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        """Show the form."""
        text = _UNSENT_TEXT if UNSENT in request.query_params else ""
        return self.page(request, path_of(request.query_params, "next"), text)

    async def enter(self, request: Request) -> Response:
        """Begin the session of a key."""
        form = await sent_form(request)
        after = path_of(form, "next")
        try:
            check_own_page(request, self._site.own_origins)
        except ForeignForm as error:
            return self.page(request, after, str(error), HTTPStatus.FORBIDDEN)
        return await self.refused_for_now(request, after) or await self._entered(request, form.get("key", ""), after)

    async def _entered(self, request: Request, sent: str, after: str) -> Response:
        key = sent.strip()
        found = await self._site.guard.verifier.identify(key) if self._site.guard and self._keys else None
        text = KeyText.parse(key)
        if text is None or found is None:
            wrong = LoginRefusal(_WRONG, HTTPStatus.UNAUTHORIZED, "no right key", text.id if text else None)
            return await self.refuse(request, after, wrong)
        if not found.principal.may(Scope.ADMIN_READ):
            lacking = LoginRefusal(_NO_ADMIN, HTTPStatus.FORBIDDEN, "its key lacks admin:read", text.id)
            return await self.refuse(request, after, lacking)
        await cross(self._site.audit.logged_in, replace(found.principal, via=way_of(request)), text.id)
        response = protected(RedirectResponse(after, HTTPStatus.SEE_OTHER))
        self._site.begin(response, self._site.visitors.sessions.new(key_id=text.id))
        return response

    async def refused_for_now(self, request: Request, after: str = ROOT) -> Response | None:
        """Return the refusal of an address that had too many wrong logins lately; None for any other one."""
        wait_s = self._limits.wait_s(_address(request))
        if not wait_s:
            return None
        await cross(self._site.audit.refused, way_of(request), "too many wrong logins of its address")
        text = f"Too many wrong logins came from your address. Try again in {span(wait_s)}."
        response = self.page(request, after, text, HTTPStatus.TOO_MANY_REQUESTS)
        response.headers["Retry-After"] = str(wait_s)
        return response

    async def refuse(self, request: Request, after: str, refusal: LoginRefusal) -> Response:
        """Record a login that was refused, count it as a guess, and say why."""
        if refusal.is_guess:
            self._limits.count(_address(request))
        await cross(self._site.audit.refused, way_of(request), refusal.recorded, refusal.key_id)
        return self.page(request, after, refusal.reason, refusal.status)

    async def leave(self, request: Request) -> Response:
        """End the session, on the server too: a copy of its cookie is worthless from now on."""
        form = await sent_form(request)
        try:
            self._site.check_form(request, self._site.visitors.session_of(request), form)
        except ForeignForm as error:
            return self.page(request, ROOT, str(error), HTTPStatus.FORBIDDEN)
        await cross(self._end, request)
        response = protected(RedirectResponse(LOGIN, HTTPStatus.SEE_OTHER))
        response.delete_cookie(self._site.visitors.cookie, path="/", secure=self._site.visitors.secure, httponly=True)
        return response

    def _end(self, request: Request) -> None:
        with suppress(NotLoggedIn):
            session, principal = self._site.visitors.find(request)
            self._site.current().store.ended_sessions.add(session.id, session.ends_at)
            self._site.audit.logged_out(principal, session.key_id)

    def page(self, request: Request, after: str, problem: str = "", status: HTTPStatus = HTTPStatus.OK) -> Response:
        """Return the login page, which leads to `after`."""
        ways = [(text, f"{url}?next={quote(after)}") for text, url in self._ways]
        values = {"keys": self._keys, "ways": ways, "after": after, "problem": problem}
        return self._site.anonymous(request, "login.html", "Log in", status, **values)


def _address(request: Request) -> str:
    return request.client.host if request.client else "-"
