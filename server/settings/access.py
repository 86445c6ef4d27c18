"""The settings of access: where the server listens, how callers prove who they are, and what a tenant may use."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal
from urllib.parse import urlsplit

from duetime.server.settings.checks import (
    HostName,
    IssuerUrl,
    Names,
    NetworkText,
    Origin,
    PublicUrl,
    SecretKeys,
    comma_separated,
    is_loopback,
    lower_case,
)
from pydantic import BaseModel, BeforeValidator, Field, SecretStr, StringConstraints, model_validator

MCP_PATH = "/mcp"

ProviderName = Literal["keys", "oauth"]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Of signatures by a private key alone: a token must not choose `none`, or the public key as a shared secret."""

ClaimName = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,100}$")]


class AccessSettings(BaseModel):
    """The part of the settings about callers."""

    host: HostName = Field(
        default="127.0.0.1",
        description="the address `duetime serve` listens on; any but loopback needs `auth`",
        examples=["127.0.0.1"],
    )
    port: int = Field(
        default=8787, ge=0, le=65_535, description="the port of `duetime serve`; 0 picks a free one", examples=["8787"]
    )
    allowed_origins: Annotated[tuple[Origin, ...], BeforeValidator(comma_separated)] = Field(
        default=(),
        description="origins of web pages that may call `duetime serve` from a browser (CORS), separated by commas. "
        "`loopback` stands for the pages of this machine, on any port",
        examples=["https://chat.example.com,loopback"],
    )
    auth: Annotated[tuple[ProviderName, ...], BeforeValidator(comma_separated), BeforeValidator(lower_case)] = Field(
        default=(),
        description="proofs of identity that `duetime serve` accepts: `keys` (`duetime keys create`), `oauth` "
        "(access tokens of `oauth_issuer`), or both. Without it, everyone on this machine is the local user",
        examples=["keys,oauth"],
    )
    operator_tenant: str = Field(
        default="local",
        min_length=1,
        max_length=200,
        description="the tenant whose administrators (scopes `admin:read` and `admin`) operate the installation: they "
        "see all tenants, and pools, workers and policies",
        examples=["operations"],
    )
    public_url: PublicUrl | None = Field(
        default=None,
        description="the address of `duetime serve` as clients write it, without `/mcp`; needed where they are on "
        "other machines, and for `oauth`",
        examples=["https://duetime.example.com"],
    )
    allowed_hosts: Names = Field(
        default=(),
        description="further host names under which `duetime serve` may be called, besides that of `public_url` and "
        "this machine's own",
        examples=["duetime.internal,server-1"],
    )
    trusted_proxies: Annotated[tuple[NetworkText, ...], BeforeValidator(comma_separated)] = Field(
        default=(),
        description="addresses and networks of proxies in front of `duetime serve`, whose `X-Forwarded-For` says where "
        "a call comes from; that of anybody else is ignored",
        examples=["10.0.0.0/8,192.168.1.5"],
    )
    oauth_issuer: IssuerUrl | None = Field(
        default=None,
        description="the authorization server whose access tokens are accepted, as its tokens name it in `iss`",
        examples=["https://login.example.com"],
    )
    oauth_audience: str = Field(
        default="",
        max_length=500,
        description="the audience that a token has to name in `aud` (default: `public_url` with `/mcp`)",
        examples=["https://duetime.example.com/mcp"],
    )
    oauth_jwks_url: IssuerUrl | None = Field(
        default=None,
        description="where the keys of `oauth_issuer` are (default: its metadata says it)",
        examples=["https://login.example.com/keys"],
    )
    oauth_algorithms: Annotated[tuple[Algorithm, ...], BeforeValidator(comma_separated), Field(min_length=1)] = Field(
        default=("RS256", "ES256"), description="the signatures that a token may have", examples=["ES256,EdDSA"]
    )
    oauth_tenant_claim: ClaimName = Field(
        default="tenant", description="the claim of a token that names the tenant", examples=["org_id"]
    )
    oauth_user_claim: ClaimName = Field(
        default="sub", description="the claim of a token that names the user", examples=["email"]
    )
    oauth_scope_claim: ClaimName = Field(
        default="scope",
        description="the claim of a token that lists its scopes, as a text with blanks or as a list",
        examples=["scp"],
    )
    oauth_leeway_seconds: int = Field(
        default=30,
        ge=0,
        le=300,
        description="how far the clock of the authorization server may differ",
        examples=["30"],
        json_schema_extra={"unit": "seconds"},
    )
    oauth_refetch_seconds: int = Field(
        default=60,
        ge=5,
        le=3600,
        description="how often at most a token with an unknown key fetches the keys of `oauth_issuer` again",
        examples=["60"],
        json_schema_extra={"unit": "seconds"},
    )
    oidc_client_id: str = Field(
        default="",
        max_length=200,
        description="this server's id at `oauth_issuer`, with which people log in to the admin page by OpenID Connect",
        examples=["duetime-admin"],
    )
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="the secret of `oidc_client_id`; none for a public client", examples=["s3cr3t"]
    )
    oidc_scopes: Names = Field(
        default=("openid",),
        description="the scopes that the login asks `oauth_issuer` for",
        examples=["openid,profile"],
    )

    secret_keys: SecretKeys | None = Field(
        default=None,
        description="the keys that encrypt secrets (`duetime secrets`), one text with commas between them: the "
        "first one encrypts, each of them decrypts",
        examples=["<32 bytes in base64>"],
    )
    secret_keys_file: str = Field(
        default="",
        max_length=4096,
        description="a file with such keys, one a line; they come after those of `secret_keys`",
        examples=["/etc/duetime/secret.keys"],
    )

    audit_keys: SecretKeys | None = Field(
        default=None,
        description="the keys that seal the audit chains, of the same form: the first one seals, each verifies. "
        "Without one, whoever can write the database can build a new chain",
        examples=["<32 bytes in base64>"],
    )
    audit_keys_file: str = Field(
        default="",
        max_length=4096,
        description="a file with such keys, one a line; they come after those of `audit_keys`",
        examples=["/etc/duetime/audit.keys"],
    )

    tenant_calls_per_minute: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="how many calls a tenant may make in a minute over HTTP with `auth`, in each process of "
        "`duetime serve`; 0 sets no limit",
        examples=["600"],
    )
    tenant_schedules_per_minute: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="how many tasks a tenant may schedule in a minute, in all processes together; 0 sets no limit",
        examples=["120"],
    )
    tenant_open_tasks: int = Field(
        default=0,
        ge=0,
        le=10_000_000,
        description="how many open tasks a tenant may have; a recurring task counts once; 0 sets no limit",
        examples=["10000"],
    )
    tenant_payload_bytes: int = Field(
        default=0,
        ge=0,
        le=10_000_000_000,
        description="how many bytes the payloads of a tenant's open tasks may have together; each call that schedules "
        "adds them up; 0 sets no limit",
        examples=["10000000"],
        json_schema_extra={"unit": "bytes"},
    )
    tenant_daily_cost: Annotated[Decimal, Field(ge=0, lt=10**9, max_digits=15, decimal_places=6)] = Field(
        default=Decimal(0),
        description="the cost limit of a tenant's runs in a day of `timezone`, in `currency`. Beyond it, the tenant "
        "may schedule no more until the day ends; 0 sets no limit",
        examples=["25.00"],
    )

    metrics_host: HostName = Field(
        default="127.0.0.1",
        description="the address on which `duetime worker` answers `/metrics`; any but loopback needs `auth`",
        examples=["127.0.0.1"],
    )
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="the port on which `duetime worker` answers `/metrics`, and with `processes` the first of them. "
        "The value 0 picks a free one. Without it only `duetime serve` answers, on its own port",
        examples=["9100"],
    )
    metrics_actions: int = Field(
        default=20,
        ge=1,
        le=1000,
        description="how many actions, and how many pools, metrics tell apart; the others are counted as `other`",
        examples=["20"],
    )
    metrics_tenants: Names = Field(
        default=(),
        description="tenants that labels of metrics may name, separated by commas; others are never named there",
        examples=["acme,local"],
    )

    @model_validator(mode="after")
    def _reachable_with_auth_only(self) -> AccessSettings:
        if is_loopback(self.host):
            return self
        if not self.auth:
            raise ValueError(
                f"host {self.host!r} can be reached from other machines, and without `auth` callers are not "
                "authenticated: set auth (DUETIME_AUTH) to keys or oauth as well, or host to 127.0.0.1"
            )
        if self.public_url is None:
            raise ValueError(
                f"host {self.host!r} can be reached from other machines: set public_url (DUETIME_PUBLIC_URL) to the "
                "address that they call, for example https://duetime.example.com"
            )
        return self

    @model_validator(mode="after")
    def _metrics_with_auth_only(self) -> AccessSettings:
        if not is_loopback(self.metrics_host) and not self.auth:
            raise ValueError(
                f"metrics_host {self.metrics_host!r} can be reached from other machines, and without `auth` callers "
                "are not authenticated: set auth (DUETIME_AUTH) to keys or oauth as well, or metrics_host to 127.0.0.1"
            )
        return self

    @model_validator(mode="after")
    def _known_issuer(self) -> AccessSettings:
        if "oauth" in self.auth and (self.oauth_issuer is None or self.public_url is None):
            raise ValueError(
                "auth by oauth needs oauth_issuer (DUETIME_OAUTH_ISSUER), the authorization server, and public_url "
                "(DUETIME_PUBLIC_URL), the address of this server in its tokens"
            )
        return self

    @model_validator(mode="after")
    def _login_of_known_issuer(self) -> AccessSettings:
        if self.oidc_client_id and not (self.auth and self.oauth_issuer and self.public_url):
            raise ValueError(
                "oidc_client_id needs auth (DUETIME_AUTH), oauth_issuer (DUETIME_OAUTH_ISSUER), where people log in, "
                "and public_url (DUETIME_PUBLIC_URL), to which they return"
            )
        return self

    @property
    def resource(self) -> str:
        """The address of the MCP endpoint as clients write it; empty without `public_url`."""
        return f"{self.public_url}{MCP_PATH}" if self.public_url else ""

    @property
    def own_origins(self) -> tuple[str, ...]:
        """The origin of pages that this server itself serves to other machines."""
        parts = urlsplit(self.public_url or "")
        return (f"{parts.scheme}://{parts.netloc}",) if parts.netloc else ()

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names of other machines' requests for this server."""
        public = [urlsplit(self.public_url).netloc] if self.public_url else []
        return (*public, *self.allowed_hosts)
