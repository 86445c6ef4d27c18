"""The frame around pages: finds the visitor, checks what he may do, calls the page, and answers by its template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from duetime.scheduler.errors import DuetimeError, InvalidArgument
from duetime.scheduler.rules.time import zones
from duetime.server.admin.access.access_audit import AccessAudit
from duetime.server.admin.access.sessions import AdminSession, Seal, Sessions
from duetime.server.admin.access.unsent_form import UNSENT_COOKIE, UNSENT_LIFETIME_S, UnsentForm
from duetime.server.admin.access.visitors import NotLoggedIn, Visitors, check_scope
from duetime.server.admin.answers import AdminRoute, Answer, Download, Moved, Page
from duetime.server.admin.failures import Correction, check_names, problem, refuse_unknown_parameters
from duetime.server.admin.live import LiveMark
from duetime.server.admin.navigation import sections
from duetime.server.admin.page_request import ROOT, KeptReads, Visit
from duetime.server.admin.protection import (
    TOKEN_FIELD,
    TOKEN_HEADER,
    ForeignForm,
    check_own_page,
    is_own_page,
    protected,
)
from duetime.server.admin.renderer import render
from duetime.tools.threads import cross
from starlette.datastructures import ImmutableMultiDict
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

if TYPE_CHECKING:
    from duetime.scheduler.principal import Principal
    from duetime.server.app import App
    from duetime.server.auth.guard import Guard
    from duetime.server.settings.model import Settings

LOGIN = f"{ROOT}/login"
ZONE_COOKIE = "duetime_zone"
THEME_COOKIE = "duetime_theme"
SAID_COOKIE = "duetime_said"
UNSENT = "unsent"
"""Marks the address of a login that follows a form for which the session had ended."""

LIVE_HEADER = "x-duetime-live"
"""Marks requests that a page makes by itself: they keep no session alive."""

SCRIPT_HEADER = "hx-request"
"""Marks requests of a page's script, which takes the content of the answer and leaves its frame out."""

SAID_LIFETIME_S = 60
MAX_SAID_BYTES = 1_300
"""Longest sentence in a sealed cookie: browsers drop one of more than 4,096 bytes, and the undo has to fit as well."""

MAX_FIELDS = 2_000
KEY_NAME = "admin"
"""The name of the key in the store by which cookies are sealed."""

Form = ImmutableMultiDict[str, str]


class AdminSite:
    """The admin page of one process. `current` returns the application, which a reload replaces."""

    def __init__(self, current: Callable[[], App], settings: Settings, guard: Guard | None) -> None:
        self.current = current
        self.guard = guard
        self.own_origins = settings.own_origins
        self.zone = settings.timezone or "UTC"
        self.kept = KeptReads()
        self.seal = Seal(lambda: current().store.server_key(KEY_NAME))
        sessions = Sessions(self.seal, lambda: current().store.now().timestamp())
        secure = bool(settings.public_url and settings.public_url.startswith("https:"))
        self.audit = AccessAudit(lambda: current().store, settings.operator_tenant)
        self.visitors = Visitors(sessions, lambda: current().store, settings.operator_tenant, secure)

    async def serve(self, route: AdminRoute, request: Request) -> Response:
        """Answer a request of a route."""
        form = await sent_form(request) if route.method == "POST" else Form()
        return await cross(self.answer, route, request, form)

    def answer(self, route: AdminRoute, request: Request, form: Form) -> Response:
        """Answer a request, on a thread."""
        try:
            session, principal = self.visitors.find(request)
        except NotLoggedIn:
            return self._to_login(request, form)
        visit = self._visit(request, form, principal)
        try:
            if route.method == "POST":
                self.check_form(request, session, form)
            check_scope(principal, route.scope, operators=route.operators)
            check_names(visit)
            if route.query is not None:
                refuse_unknown_parameters(visit, route.query)
            mark = LiveMark.of(visit.store, principal)  # before the page reads anything: later changes are news to it
            found = route.handle(visit)
            found = replace(found, mark=str(mark)) if isinstance(found, Page) else found
            self._audit_read(found, visit, session, request)
        except DuetimeError as error:
            found = problem(error, Correction.of(error, visit, route.method), _way_back(request, form))
            visit = visit.without_tenant() if error.argument == "tenant" else visit
        return self._with_session(self._response(found, visit, session, request), session, request)

    def _audit_read(self, found: Answer, visit: Visit, session: AdminSession, request: Request) -> None:
        """Record whose things an answer shows; what a page requests by itself was recorded when it was opened."""
        if isinstance(found, Moved):
            return
        shown = found.tenant or visit.tenant
        if LIVE_HEADER not in request.headers:
            self.audit.read(visit.principal, session, shown, visit.path)
        if isinstance(found, Download) and request.method != "HEAD":
            self.audit.exported(visit.principal, shown, found.name)

    def _visit(self, request: Request, form: Form, principal: Principal) -> Visit:
        path, app = request.scope["path"].removeprefix(ROOT) or "/", self.current()
        parts, query, zone = request.path_params, request.query_params, self._zone(request)
        return Visit(app, principal, path, parts, query, form, zone, app.store.now(), self.kept)

    def _zone(self, request: Request) -> str:
        try:
            return zones.find(request.cookies.get(ZONE_COOKIE, "")).key
        except InvalidArgument:
            return self.zone

    def check_form(self, request: Request, session: AdminSession | None, form: Form) -> None:
        """Raise ForeignForm unless a page of this session sent the form."""
        check_own_page(request, self.own_origins)
        token = form.get(TOKEN_FIELD) or request.headers.get(TOKEN_HEADER, "")
        if session is None or not self.visitors.sessions.has_csrf_token(session, token):
            raise ForeignForm("This form is of another session. Nothing was done. Open the page again.")

    def _response(self, found: Answer, visit: Visit, session: AdminSession, request: Request) -> Response:
        if isinstance(found, Moved):
            return self._moved(found)
        if isinstance(found, Download):
            named = {"Content-Disposition": f'attachment; filename="{found.name}"'}
            parts = found.parts if request.method != "HEAD" else ()
            return protected(StreamingResponse(parts, media_type=found.media_type, headers=named))
        return self._page(found, visit, session, request)

    def _moved(self, found: Moved) -> Response:
        response = RedirectResponse(found.path, HTTPStatus.SEE_OTHER)
        if found.notice:
            sealed = {"said": _in_cookie(found.notice), "undo": found.undo, "undo_at": found.undo_at}
            self.set_cookie(response, SAID_COOKIE, self.seal.close("said", sealed), SAID_LIFETIME_S)
        return protected(response)

    def _page(self, page: Page, visit: Visit, session: AdminSession, request: Request) -> Response:
        stored, unsent = self._notice(request), self._unsent(request)
        frame = {
            **self._look(request),
            "visit": visit,
            "title": page.title,
            "mark": page.mark,
            **{name: stored.get(name) for name in ("said", "undo", "undo_at")},
            "unsent": unsent,
            "sections": sections(visit),
            "csrf_token": self.visitors.sessions.csrf_token(session),
            "guarded": self.guard is not None,
        }
        response = HTMLResponse(render(page.template, {**frame, **page.values}), page.status)
        if stored:
            response.delete_cookie(SAID_COOKIE, path=ROOT)
        if unsent:
            response.delete_cookie(UNSENT_COOKIE, path=ROOT)
        return protected(response)

    def _notice(self, request: Request) -> dict[str, Any]:
        """Return what the frame says of a change just made; an answer to a script leaves it to the next whole page."""
        sealed = "" if SCRIPT_HEADER in request.headers else request.cookies.get(SAID_COOKIE, "")
        kept = self.seal.open("said", sealed)
        return kept if isinstance(kept, dict) else {}  # an older version kept the sentence alone

    def _unsent(self, request: Request) -> Correction | None:
        """Return the form for which a session had ended, to be sent again; a script leaves it to the next page."""
        sealed = "" if SCRIPT_HEADER in request.headers else request.cookies.get(UNSENT_COOKIE, "")
        found = UnsentForm.of(self.seal, sealed)
        return _correction(found) if found else None

    def anonymous(
        self, request: Request, template: str, title: str, status: HTTPStatus = HTTPStatus.OK, **values: Any
    ) -> Response:
        """Return a page for somebody who has not logged in."""
        return protected(HTMLResponse(render(template, {**self._look(request), "title": title, **values}), status))

    def _look(self, request: Request) -> dict[str, str]:
        """Return the zone and the theme of the viewer's browser; without a theme it is the system's."""
        theme = request.cookies.get(THEME_COOKIE, "")
        return {"zone": self._zone(request), "theme": theme if theme in {"light", "dark"} else ""}

    def _with_session(self, response: Response, session: AdminSession, request: Request) -> Response:
        """Give a new session its cookie, and one in use a newer one."""
        sessions, by_itself = self.visitors.sessions, LIVE_HEADER in request.headers
        known = self.visitors.cookie in request.cookies and self.visitors.session_of(request) is not None
        newer = session if not known else None if by_itself else sessions.seen(session)
        if newer is not None:
            self.begin(response, newer)
        return response

    def begin(self, response: Response, session: AdminSession) -> None:
        """Give the browser the cookie of a session; it ends with the browser, if not before."""
        self.set_cookie(response, self.visitors.cookie, self.visitors.sessions.write(session), path="/")

    def _to_login(self, request: Request, form: Form) -> Response:
        """Send a person to the login and back to the page that was asked for; tell a script that its session has ended.

        The browser keeps the text that was typed in a form of this server until after the login.
        """
        if LIVE_HEADER in request.headers or request.headers.get("accept") == "text/event-stream":
            return protected(Response("Log in again.", HTTPStatus.UNAUTHORIZED, media_type="text/plain"))
        here, sent = _address(request), request.method == "POST"
        wanted = _way_back(request, form) if sent else here
        after = {"next": wanted} if wanted not in {"", ROOT} else {}
        asked = urlencode({**after, **({UNSENT: "1"} if sent else {})}, safe="/", quote_via=quote)
        response = protected(RedirectResponse(f"{LOGIN}?{asked}" if asked else LOGIN, HTTPStatus.SEE_OTHER))
        typed = sent and is_own_page(request, self.own_origins) and UnsentForm(here, form.multi_items())
        if typed and (sealed := typed.sealed(self.seal)):
            self.set_cookie(response, UNSENT_COOKIE, sealed, UNSENT_LIFETIME_S)
        return response

    def set_cookie(
        self, response: Response, name: str, value: str, lifetime_s: int | None = None, path: str = ROOT
    ) -> None:
        """Set a cookie that only this server gets, and no script can read."""
        response.set_cookie(
            name, value, lifetime_s, path=path, secure=self.visitors.secure, httponly=True, samesite="strict"
        )


async def sent_form(request: Request) -> Form:
    """Read a form; ForeignForm for a body of another kind is left to the missing token."""
    body = await request.body()
    try:
        return Form(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        return Form()


def _in_cookie(notice: str) -> str:
    """Cut a sentence that has titles in it, whose characters may have several bytes each."""
    whole = notice.encode(errors="replace")
    return notice if len(whole) <= MAX_SAID_BYTES else f"{whole[:MAX_SAID_BYTES].decode(errors='ignore')}..."


def _correction(unsent: UnsentForm) -> Correction | None:
    return Correction.to_send_again("POST", unsent.path, unsent.fields)


def _address(request: Request) -> str:
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def _way_back(request: Request, form: Form) -> str:
    """Return the address of the page that sent a request, empty where it is unknown."""
    before = urlsplit(request.headers.get("referer", ""))
    shown = f"{before.path}?{before.query}" if before.query else before.path
    found = path_of({"after": form.get("after") or shown}, "after")
    return "" if found == ROOT else found


def endpoint(site: AdminSite, route: AdminRoute) -> Callable[[Request], Any]:
    """Return the endpoint of a route."""
    return partial(site.serve, route)


def path_of(values: Mapping[str, str], name: str) -> str:
    """Return the address on the admin page that a form or a query names; any other one is replaced by the first page.

    Whoever makes a link must not be able to lead somebody elsewhere after the login.
    """
    wanted = values.get(name, "")
    own = wanted.startswith((f"{ROOT}/", f"{ROOT}?")) and wanted != f"{ROOT}/"
    return wanted if own and "\\" not in wanted and wanted.isprintable() else ROOT
