"""Access tokens of an authorization server: a right one is its principal, whatever else a token says is refused."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass, field, replace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.principal import Principal
from duetime.server.auth.issuer_keys import KEYS_MAX_AGE_S, STALE_KEYS_MAX_AGE_S, IssuerKeys, IssuerUnavailable
from duetime.server.auth.oauth import OAuthProvider, TokenRules

from tests.flow.auth.issuer import AUDIENCE, EC_KEY, OTHER_RSA_KEY, RSA_KEY, Issuer, jwk

REFETCH_S = 60
ISSUER = "https://login.example.com"


@dataclass
class Setup:
    """An issuer, the provider that trusts it, and the clock of its keys."""

    issuer: Issuer = field(default_factory=lambda: Issuer(ISSUER))
    rules: TokenRules = field(default_factory=lambda: TokenRules(ISSUER, AUDIENCE))
    now: float = 1000.0

    def __post_init__(self) -> None:
        keys = IssuerKeys(ISSUER, None, refetch_s=REFETCH_S, fetch=self.issuer.fetch, clock=lambda: self.now)
        self.keys = keys
        self.provider = OAuthProvider(self.rules, keys)

    def principal(self, token: str) -> Principal | None:
        found = self.provider.verify(token)
        return found.principal if found else None


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_a_token_names_its_principal(setup: Setup) -> None:
    assert setup.principal(setup.issuer.token()) == Principal("acme", "ann", frozenset({"tasks"}))


def test_the_token_itself_is_not_kept(setup: Setup) -> None:
    token = setup.issuer.token()
    assert token.rpartition(".")[2] not in repr(setup.provider.verify(token))


def test_the_claims_are_those_that_are_configured() -> None:
    rules = TokenRules(ISSUER, "api://x", ("ES256",), tenant_claim="org_id", user_claim="email", scope_claim="scp")
    setup = Setup(rules=rules)
    setup.issuer.documents["/keys"] = {"keys": [jwk(EC_KEY, "first")]}
    claims: dict[str, Any] = {
        "aud": ["other", "api://x"],
        "org_id": "globex",
        "email": "bob@globex.com",
        "scp": ["admin", "x"],
    }
    token = setup.issuer.token(EC_KEY, algorithm="ES256", **claims)
    assert setup.principal(token) == Principal("globex", "bob@globex.com", frozenset({"admin"}))


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": 4_000_000_000},
        {"iat": 4_000_000_000},
        {"iss": "https://evil.example.com"},
        {"iss": None},
        {"iss": f"{ISSUER}/"},
        {"aud": "https://other.example.com/mcp"},
        {"aud": None},
        {"aud": []},
        {"aud": {"x": AUDIENCE}},
    ],
)
def test_a_token_that_is_not_for_here_and_now_is_refused(setup: Setup, claims: dict[str, Any]) -> None:
    assert setup.principal(setup.issuer.token(**claims)) is None


def test_clocks_may_differ_by_the_leeway(setup: Setup) -> None:
    leeway = replace(setup.rules, leeway_s=300)
    just_over = setup.issuer.token(exp=int(time.time()) - 150)
    assert setup.principal(just_over) is None
    assert OAuthProvider(leeway, setup.keys).verify(just_over) is not None


@pytest.mark.parametrize(
    "claims", [{"tenant": None}, {"tenant": 7}, {"tenant": ["acme"]}, {"tenant": " "}, {"sub": ""}]
)
def test_a_token_without_a_tenant_or_a_user_is_nobodys(setup: Setup, claims: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        setup.principal(setup.issuer.token(**claims))


@pytest.mark.parametrize("scope", [None, 7, {"tasks": 1}, "", "duetime:tasks", ["TASKS"], [["tasks"]]])
def test_a_token_without_a_scope_of_duetime_has_none(setup: Setup, scope: Any) -> None:
    found = setup.principal(setup.issuer.token(scope=scope))
    assert found is not None
    assert found.scopes == frozenset()


def unsigned(header: Any, claims: Any) -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims))
    return ".".join((*parts, ""))


def signed(header: Any, claims: Any) -> str:
    """Return a token with a right signature under any header, also one that the library would not write."""
    text = unsigned(header, claims).rstrip(".")
    signature = base64.urlsafe_b64encode(RSA_KEY.sign(text.encode(), PKCS1v15(), SHA256())).rstrip(b"=").decode()
    return f"{text}.{signature}"


def forged(issuer: Issuer) -> list[str]:
    head, body, signature = issuer.token().split(".")
    public = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    secret = base64.urlsafe_b64encode(public).decode()
    by_secret = jwt.encode(issuer.claims(), secret, algorithm="HS256", headers={"kid": "first"})
    _, other_body, _ = issuer.token(tenant="globex").split(".")
    return [
        unsigned({"alg": "none", "kid": "first"}, issuer.claims()),
        unsigned({"alg": "None", "kid": "first"}, issuer.claims()),
        unsigned({"alg": ["RS256"], "kid": "first"}, issuer.claims()),
        unsigned({"alg": "RS256", "kid": {"x": 1}}, issuer.claims()),
        unsigned({"alg": "RS256", "kid": "first", "crit": ["b64"], "b64": False}, issuer.claims()),
        signed({"alg": "RS256", "kid": "first", "crit": ["b64"], "b64": True}, issuer.claims()),
        unsigned(["RS256"], issuer.claims()),
        unsigned({"alg": "RS256", "kid": "first"}, [1, 2]),
        by_secret,
        issuer.token(OTHER_RSA_KEY),
        issuer.token(OTHER_RSA_KEY, headers={"kid": "first", "jwk": jwk(OTHER_RSA_KEY, "first")}),
        issuer.token(OTHER_RSA_KEY, headers={"kid": "first", "jku": "https://evil.example.com/keys"}),
        issuer.token(EC_KEY, algorithm="ES256"),
        issuer.token(algorithm="PS256"),
        f"{head}.{other_body}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}.{'A' * 5000}",
        "..",
        "a.b.c",
        "ä.ö.ü",
        f"{'[' * 3000}.{'[' * 3000}.x",
        unsigned({"alg": "RS256"}, {}).replace("e", "\0"),
    ]


@pytest.mark.parametrize("number", range(22))
def test_a_forged_token_is_nobodys(setup: Setup, number: int) -> None:
    assert setup.principal(forged(setup.issuer)[number]) is None
    assert "https://evil.example.com/keys" not in setup.issuer.asked


def test_a_key_that_names_its_algorithm_signs_by_no_other() -> None:
    setup = Setup(rules=TokenRules(ISSUER, AUDIENCE, ("RS256", "PS256")))
    setup.issuer.documents["/keys"] = {"keys": [jwk(RSA_KEY, "first", alg="RS256")]}
    assert setup.principal(setup.issuer.token()) is not None
    assert setup.principal(setup.issuer.token(algorithm="PS256")) is None


def test_a_key_for_encryption_or_of_an_unknown_kind_signs_nothing(setup: Setup) -> None:
    others = [{"kty": "new", "kid": "new"}, {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}]
    setup.issuer.documents["/keys"] = {"keys": [*others, jwk(RSA_KEY, "first", use="enc"), jwk(EC_KEY, "ec")]}
    assert setup.principal(setup.issuer.token()) is None
    assert setup.principal(setup.issuer.token(EC_KEY, algorithm="ES256", headers={"kid": "ec"})) is not None


def test_a_token_without_a_key_id_is_of_the_only_key(setup: Setup) -> None:
    assert setup.principal(setup.issuer.token(headers={})) is not None
    setup.issuer.documents["/keys"]["keys"].append(jwk(EC_KEY, "second"))
    setup.now += KEYS_MAX_AGE_S + 1
    assert setup.principal(setup.issuer.token(headers={})) is None


def test_keys_are_fetched_once_and_again_after_their_age(setup: Setup) -> None:
    for _ in range(3):
        assert setup.principal(setup.issuer.token()) is not None
    assert setup.issuer.asked == ["/.well-known/openid-configuration", "/keys"]
    setup.now += KEYS_MAX_AGE_S + 1
    setup.issuer.documents["/keys"] = {"keys": [jwk(EC_KEY, "first")]}
    assert setup.principal(setup.issuer.token()) is None  # it was withdrawn


def test_a_new_key_is_fetched_when_a_token_names_it(setup: Setup) -> None:
    setup.principal(setup.issuer.token())
    setup.issuer.documents["/keys"]["keys"].append(jwk(OTHER_RSA_KEY, "second"))
    setup.now += REFETCH_S
    assert setup.principal(setup.issuer.token(OTHER_RSA_KEY, headers={"kid": "second"})) is not None


def test_invented_key_ids_fetch_keys_once_an_interval(setup: Setup) -> None:
    setup.principal(setup.issuer.token())
    setup.now += REFETCH_S
    for number in range(20):
        assert setup.principal(setup.issuer.token(headers={"kid": f"invented {number}"})) is None
    assert setup.issuer.asked.count("/keys") == 2
    assert setup.principal(setup.issuer.token()) is not None


def test_known_keys_hold_for_a_while_when_the_issuer_is_away(setup: Setup) -> None:
    setup.principal(setup.issuer.token())
    setup.issuer.documents = {}
    setup.now += KEYS_MAX_AGE_S + 1
    assert setup.principal(setup.issuer.token()) is not None
    setup.now += STALE_KEYS_MAX_AGE_S
    with pytest.raises(IssuerUnavailable):
        setup.principal(setup.issuer.token())


@pytest.mark.parametrize(
    "documents",
    [
        {},
        {"/.well-known/openid-configuration": {"issuer": "https://evil.example.com", "jwks_uri": f"{ISSUER}/keys"}},
        {"/.well-known/openid-configuration": {"issuer": ISSUER, "jwks_uri": "http://login.example.com/keys"}},
        {"/.well-known/openid-configuration": [1]},
        {"/.well-known/openid-configuration": {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}, "/keys": {"keys": 7}},
    ],
)
def test_without_keys_a_token_is_neither_right_nor_wrong(setup: Setup, documents: dict[str, Any]) -> None:
    setup.issuer.documents = documents
    with pytest.raises(IssuerUnavailable):
        setup.principal(setup.issuer.token())


def test_metadata_of_rfc_8414_says_where_keys_are(setup: Setup) -> None:
    metadata = setup.issuer.documents.pop("/.well-known/openid-configuration")
    setup.issuer.documents["/.well-known/oauth-authorization-server"] = metadata
    assert setup.principal(setup.issuer.token()) is not None
