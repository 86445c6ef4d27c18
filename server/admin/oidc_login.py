"""Logging in by a provider of identities (OpenID Connect): out to it, and back with who somebody is."""

from __future__ import annotations

import hmac
from dataclasses import asdict, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.principal import Principal, Scope
from duetime.server.admin.access.visitors import way_of
from duetime.server.admin.failures import shielded
from duetime.server.admin.login import Login, LoginRefusal
from duetime.server.admin.protection import protected
from duetime.server.admin.site import LOGIN, AdminSite, path_of
from duetime.server.auth.issuer_keys import IssuerKeys, IssuerUnavailable
from duetime.server.auth.oauth import OAuthProvider, TokenRules
from duetime.server.auth.oidc import LoginAttempt, LoginRefused, OidcClient, OidcProvider
from duetime.tools.threads import cross
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from duetime.server.settings.model import Settings

_START: Final = f"{LOGIN}/oidc"
CALLBACK: Final = f"{LOGIN}/callback"
ATTEMPT_COOKIE: Final = "duetime_login"
ATTEMPT_LIFETIME_S: Final = 600
MAX_ISSUER_ERROR_CHARS: Final = 100
MAX_LOGIN_REASON_CHARS: Final = 300

_NOT_BEGUN = "This login was not begun in this browser, or more than 10 minutes ago. Begin again."
_NO_ADMIN = "You may not see the admin page: the provider gives you neither the scope admin:read nor admin."


def way_in(settings: Settings) -> tuple[str, str]:
    """Return the link of the login page: its text and its address."""
    return f"Log in with {urlsplit(settings.oauth_issuer or '').netloc}", _START


def provider_of(settings: Settings) -> OidcProvider:
    client = OidcClient.of(settings, f"{settings.public_url}{CALLBACK}")
    keys = IssuerKeys(client.issuer, settings.oauth_jwks_url, refetch_s=settings.oauth_refetch_seconds)
    return OidcProvider(client, OAuthProvider(replace(TokenRules.of(settings), audience=client.client_id), keys))


class OidcLogin:
    """The two ends of the way over the provider.

    Its answer arrives from another site, so the browser would keep the cookie of the new session back from a redirect.
    A page answers instead, which continues by itself.
    """

    def __init__(self, site: AdminSite, login: Login, provider: OidcProvider) -> None:
        self._site = site
        self._login = login
        self._provider = provider

    def routes(self) -> list[Route]:
        return [
            Route(_START, shielded(self.start), methods=["GET"]),
            Route(CALLBACK, shielded(self.finish), methods=["GET"]),
        ]

    async def start(self, request: Request) -> Response:
        """Send somebody to the provider, with the secrets of this login in a cookie."""
        attempt = LoginAttempt.new(path_of(request.query_params, "next"), self._now())
        try:
            address = await cross(self._provider.address, attempt)
        except IssuerUnavailable as error:
            return self._login.page(request, attempt.after, str(error), HTTPStatus.SERVICE_UNAVAILABLE)
        response = protected(RedirectResponse(address, HTTPStatus.SEE_OTHER))
        sealed, secure = self._site.seal.close("login", asdict(attempt)), self._site.visitors.secure
        name = self._cookie(attempt.state)
        response.set_cookie(name, sealed, ATTEMPT_LIFETIME_S, path=LOGIN, secure=secure, httponly=True, samesite="lax")
        return response

    async def finish(self, request: Request) -> Response:
        """Begin the session of somebody who comes back from the provider."""
        refused = await self._login.refused_for_now(request)
        attempt = self._attempt(request)
        response = refused or await self._answer(request, attempt)
        if attempt is not None:
            name, secure = self._cookie(attempt.state), self._site.visitors.secure
            response.delete_cookie(name, path=LOGIN, secure=secure, httponly=True)
        return response

    def _cookie(self, state: str) -> str:
        """Return the name of the cookie of one login: each tab has its own."""
        name = f"{ATTEMPT_COOKIE}_{state}"
        return f"__Secure-{name}" if self._site.visitors.secure else name

    async def _answer(self, request: Request, attempt: LoginAttempt | None) -> Response:
        try:
            who = await self._principal(request, attempt)
        except IssuerUnavailable as error:
            return self._login.page(request, _after(attempt), str(error), HTTPStatus.SERVICE_UNAVAILABLE)
        except DuetimeError as error:
            recorded = f"{self._provider.issuer}: {error}"[:MAX_LOGIN_REASON_CHARS]
            refusal = LoginRefusal(str(error), HTTPStatus.FORBIDDEN, recorded, is_guess=attempt is not None)
            return await self._login.refuse(request, _after(attempt), refusal)
        await cross(self._site.audit.logged_in, replace(who, via=way_of(request)), None, self._provider.issuer)
        response = self._site.anonymous(request, "entered.html", "Welcome", after=_after(attempt))
        scopes = tuple(sorted(who.scopes))
        session = self._site.visitors.sessions.new(tenant=who.tenant, user=who.user, scopes=scopes)
        self._site.begin(response, session)
        return response

    async def _principal(self, request: Request, attempt: LoginAttempt | None) -> Principal:
        given = request.query_params
        if attempt is None:
            raise LoginRefused(_NOT_BEGUN)
        if given.get("iss", self._provider.issuer) != self._provider.issuer:
            raise LoginRefused("Another provider answered.")
        if "error" in given:
            raise LoginRefused(f"The provider refused: {given['error'][:MAX_ISSUER_ERROR_CHARS]}")
        who = await cross(self._provider.principal, given.get("code", ""), attempt)
        if not who.may(Scope.ADMIN_READ):
            raise LoginRefused(_NO_ADMIN)
        return who

    def _attempt(self, request: Request) -> LoginAttempt | None:
        """Return the login of this browser that the answer belongs to; None for a forged answer and an old login."""
        state = request.query_params.get("state", "")
        found = self._site.seal.open("login", request.cookies.get(self._cookie(state), ""))
        attempt = LoginAttempt(**found) if found is not None else None
        if attempt is None or self._now() - attempt.begun_at > ATTEMPT_LIFETIME_S:
            return None
        return attempt if hmac.compare_digest(state.encode(), attempt.state.encode()) else None

    def _now(self) -> int:
        return int(self._site.current().store.now().timestamp())


def _after(attempt: LoginAttempt | None) -> str:
    return path_of({"next": attempt.after if attempt else ""}, "next")
