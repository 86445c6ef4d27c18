"""Logging in to the admin page by a provider of identities: who gets in, and which answers are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest
from duetime.scheduler.audit.entry import AuditFilter
from duetime.server.admin import oidc_login
from duetime.server.admin.access import login_limits
from duetime.server.admin.oidc_login import ATTEMPT_COOKIE, ATTEMPT_LIFETIME_S
from duetime.server.auth.issuer_keys import IssuerKeys
from duetime.server.settings.model import Settings
from pydantic import ValidationError

from tests.flow.admin.conftest import Admin, Open
from tests.flow.admin.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, serving_provider
from tests.flow.auth.issuer import OTHER_RSA_KEY, RSA_KEY, jwk

pytestmark = pytest.mark.anyio

SESSION_COOKIE = "duetime_admin"


def settings_of(provider: IdentityProvider, **others: Any) -> dict[str, Any]:
    return {
        "auth": ("keys",),
        "public_url": "http://127.0.0.1",
        "oauth_issuer": provider.url,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
        **others,
    }


@dataclass
class Person:
    """A person with a browser, at the admin page and at the provider."""

    admin: Admin
    provider: IdentityProvider

    async def begin(self, after: str = "/admin") -> str:
        """Go to the provider and log in there; return the address to which it sends the person back."""
        start = await self.admin.get(f"/login/oidc?next={after}")
        assert start.status_code == 303, start.text
        async with httpx2.AsyncClient(trust_env=False) as http:
            page = (await http.get(start.headers["location"])).text
        return unescape(page.partition('<a href="')[2].partition('"')[0])

    async def come_back(self, address: str, **changed: str | None) -> httpx2.Response:
        query = {**dict(parse_qsl(urlsplit(address).query)), **changed}
        sent = urlencode({name: value for name, value in query.items() if value is not None})
        return await self.admin.get(f"/login/callback?{sent}")

    async def log_in(self, after: str = "/admin") -> httpx2.Response:
        return await self.come_back(await self.begin(after))

    async def is_in(self) -> bool:
        return (await self.admin.get("")).status_code == 200


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with serving_provider() as found:
        yield found


@pytest.fixture
async def person(admin_page: Open, provider: IdentityProvider) -> Person:
    return Person(await admin_page(**settings_of(provider)), provider)


async def test_a_person_is_in_as_the_provider_says_and_arrives_where_he_wanted(person: Person) -> None:
    person.provider.claims_of_user = {"scope": "openid admin:read", "sub": "Ann B.", "tenant": "acme"}
    page = (await person.admin.get("/login?next=/admin/runs%3Fstate%3Dfailed")).text
    [way] = re.findall(r'class="button" href="/admin(/login/oidc[^"]*)"', page)
    assert dict(parse_qsl(urlsplit(unescape(way)).query)) == {"next": "/admin/runs?state=failed"}
    entered = await person.log_in("/admin/runs?state=failed")
    assert entered.status_code == 200, entered.text
    assert '<meta http-equiv="refresh" content="0; url=/admin/runs?state=failed">' in entered.text
    cookies = entered.headers.get_list("set-cookie")
    assert any(each.startswith(f"{SESSION_COOKIE}=") and "samesite=strict" in each.lower() for each in cookies)
    assert any(re.match(rf'{ATTEMPT_COOKIE}_[\w-]+="";', each) for each in cookies), "the secrets of the login are gone"
    assert all("httponly" in each.lower() for each in cookies)
    shown = (await person.admin.get("/runs")).text
    assert "Ann B." in shown
    assert "tenant acme, read only" in " ".join(shown.split())
    [entry] = person.admin.site.app.store.audit.page("acme", AuditFilter(kind="logged_in"), limit=9).entries
    assert (entry.actor, entry.detail) == ("Ann B.", {"issuer": person.provider.url})
    await person.admin.post("/logout")
    assert not await person.is_in()


async def test_a_public_client_has_no_secret_and_proves_itself_by_the_verifier(
    admin_page: Open, provider: IdentityProvider
) -> None:
    provider.is_public = True
    person = Person(await admin_page(**settings_of(provider, oidc_client_secret=None)), provider)
    assert (await person.log_in()).status_code == 200
    assert await person.is_in()


async def test_an_answer_of_a_provider_to_another_login_lets_nobody_in(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_limits, "MAX_WRONG_LOGINS", 1_000)
    wrong: dict[str, dict[str, Any]] = {
        "nonce": {"nonce": "another"},
        "no nonce": {"nonce": None},
        "audience": {"aud": "another-client"},
        "authorized party": {"aud": [CLIENT_ID, "other"], "azp": "other"},
        "issuer": {"iss": "https://login.example.com"},
        "expired": {"exp": 1_000_000_000},
        "no expiry": {"exp": None},
        "no tenant": {"tenant": None},
        "no user": {"sub": None},
        "tenant that is no name": {"tenant": ["acme"]},
        "no scope of the page": {"scope": "openid tasks worker"},
    }
    for name, claims in wrong.items():
        person.provider.claims_of_user = {"scope": "openid admin", **claims}
        refused = await person.log_in()
        assert (name, refused.status_code, await person.is_in()) == (name, 403, False)
    person.provider.claims_of_user = {"scope": "openid admin"}
    secret = jwk(RSA_KEY, "first")["n"]
    for signature in ({"algorithm": "none"}, {"key": OTHER_RSA_KEY}, {"key": secret, "algorithm": "HS256"}):
        person.provider.signature = signature
        assert ((await person.log_in()).status_code, await person.is_in()) == (403, False), signature
    reasons = person.admin.site.app.store.audit.page("local", AuditFilter(kind="login_refused"), limit=99).entries
    assert len(reasons) == len(wrong) + 3
    person.provider.signature = {}
    assert ((await person.log_in()).status_code, await person.is_in()) == (200, True), "and the right one does"


async def test_a_way_back_that_was_not_begun_here_lets_nobody_in(person: Person) -> None:
    for changed in (
        {"state": "forged"},
        {"state": None},
        {"code": "forged"},
        {"code": None},
        {"code": "x" * 5_000},
        {"iss": "https://evil.example"},
        {"error": "access_denied<script>", "code": None},
    ):
        refused = await person.come_back(await person.begin(), **changed)
        assert (refused.status_code, await person.is_in()) == (403, False), changed
        assert "<script>alert" not in refused.text
        assert "denied<script" not in refused.text
    theirs = await person.begin()
    person.admin.http.cookies.clear()
    assert (await person.come_back(theirs)).status_code == 403, "without the cookie of the one who began"
    other = await person.begin()
    state = dict(parse_qsl(urlsplit(other).query))["state"]
    assert (await person.come_back(theirs, state=state)).status_code == 403, "with the state of another login"
    assert (await person.log_in()).status_code == 200


async def test_answers_to_no_login_of_this_browser_lock_nobody_out_and_refused_logins_do(person: Person) -> None:
    for _ in range(login_limits.MAX_WRONG_LOGINS + 1):
        assert (await person.come_back(await person.begin(), state="forged")).status_code == 403
    assert (await person.log_in()).status_code == 200
    for _ in range(login_limits.MAX_WRONG_LOGINS):
        assert (await person.come_back(await person.begin(), code=None, error="access_denied")).status_code == 403
    assert (await person.log_in()).status_code == 429


async def test_two_tabs_log_in_at_once_and_a_forged_answer_ends_neither(person: Person) -> None:
    first, second = await person.begin("/admin/runs"), await person.begin("/admin/dead")
    assert (await person.come_back(first, state="forged")).status_code == 403
    entered = await person.come_back(first)
    assert (entered.status_code, "url=/admin/runs" in entered.text) == (200, True)
    entered = await person.come_back(second)
    assert (entered.status_code, "url=/admin/dead" in entered.text) == (200, True)
    assert [each.name for each in person.admin.http.cookies.jar if each.name.startswith(ATTEMPT_COOKIE)] == []
    assert (await person.come_back(first)).status_code == 403, "once"


async def test_a_login_is_good_once_and_not_for_ever(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    address = await person.begin()
    [attempt] = [each for each in person.admin.http.cookies.jar if each.name.startswith(ATTEMPT_COOKIE)]
    assert (await person.come_back(address)).status_code == 200
    person.admin.http.cookies.clear()
    person.admin.http.cookies.set(attempt.name, attempt.value or "", domain=attempt.domain, path=attempt.path)
    assert ((await person.come_back(address)).status_code, await person.is_in()) == (403, False)
    late = await person.begin()
    now = oidc_login.OidcLogin._now
    monkeypatch.setattr(oidc_login.OidcLogin, "_now", lambda login: now(login) + ATTEMPT_LIFETIME_S + 1)
    assert "more than 10 minutes ago" in (await person.come_back(late)).text


async def test_a_new_key_of_the_provider_is_fetched(
    admin_page: Open, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(oidc_login, "IssuerKeys", partial(IssuerKeys, clock=lambda: now[0]))
    person = Person(await admin_page(**settings_of(provider)), provider)
    assert (await person.log_in()).status_code == 200
    provider.documents["/keys"] = {"keys": [jwk(OTHER_RSA_KEY, "second")]}
    provider.signature = {"key": OTHER_RSA_KEY, "headers": {"kid": "second"}}
    now[0] = 61
    assert (await person.log_in()).status_code == 200
    provider.signature = {}
    assert (await person.log_in()).status_code == 403, "the old key is withdrawn"


async def test_a_provider_that_does_not_answer_is_named(person: Person) -> None:
    address = await person.begin()
    person.provider.broken = True
    later = await person.come_back(address)
    assert (later.status_code, await person.is_in()) == (503, False)
    assert person.provider.url in later.text


async def test_an_installation_whose_provider_is_away_says_so_and_takes_keys(admin_page: Open) -> None:
    with serving_provider() as gone:
        settings = settings_of(gone)
    admin = await admin_page(**settings)
    assert (await admin.get("/login/oidc")).status_code == 503
    await admin.enter("admin")
    assert (await admin.get("")).status_code == 200


def test_a_login_needs_an_issuer_and_the_address_to_come_back_to() -> None:
    for missing in ("auth", "oauth_issuer", "public_url"):
        given = {"auth": ["keys"], "oauth_issuer": "https://i.example", "public_url": "https://d.example"}
        with pytest.raises(ValidationError, match="oidc_client_id needs"):
            Settings.model_validate(
                {**{name: v for name, v in given.items() if name != missing}, "oidc_client_id": "x"}
            )
