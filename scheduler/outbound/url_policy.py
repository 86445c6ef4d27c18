"""The policy of outgoing requests: which URLs and addresses are refused before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.ip_ranges import Reach, literal, reach

if TYPE_CHECKING:
    import httpx2

MAX_URL_CHARS: Final = 2048
HIGHEST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    """Permitted addresses of webhooks, and their signature.

    Public https addresses only, unless: `allow_http` permits plain http, `allow_private` permits private addresses of
    any host, and `allow_hosts` those of the named hosts. Cloud metadata and link-local addresses are never permitted.
    `secret` signs (see `signature.Signer`); `reveal` puts the secrets that it names in their places, at each request.
    `timeout` is in seconds, for one request with its redirects and its answer.
    """

    allow_http: bool = False
    allow_private: bool = False
    allow_hosts: tuple[str, ...] = ()
    secret: str | None = field(default=None, repr=False)
    timeout: float = 20.0
    reveal: Callable[[str], str] = field(default=str, repr=False, compare=False)

    def trusts(self, host: str) -> bool:
        """Whether `allow_hosts` names the host."""
        return _plain(host) in {_plain(name) for name in self.allow_hosts}

    def permits(self, host: str, address: str) -> bool:
        """Whether a connection to `address`, resolved from `host`, is permitted."""
        found = reach(address)
        if found is Reach.PRIVATE:
            return self.allow_private or self.trusts(host)
        return found is Reach.PUBLIC


_EXAMPLE = "https://example.com/hook"


def check_url(argument: str, text: str, options: WebhookOptions) -> httpx2.URL:
    """Return the parsed URL, or raise `InvalidArgument`; checks the text only, without a name server."""
    url = _parsed(argument, text)
    problem = _form_problem(url, options) or _host_problem(url.host, options)
    if problem:
        raise InvalidArgument(argument, problem, accepted=_accepted(options), example=_EXAMPLE)
    return url


def _plain(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def _parsed(argument: str, text: str) -> httpx2.URL:
    if len(text) > MAX_URL_CHARS:
        raise InvalidArgument(
            argument, "it is too long", accepted=f"at most {MAX_URL_CHARS:,} characters", example=_EXAMPLE
        )
    if any(char.isspace() or not char.isprintable() or char == "\\" for char in text):
        problem = "contains blanks, backslashes or control characters"
        raise InvalidArgument(argument, problem, accepted="a plain URL", example=_EXAMPLE)
    import httpx2  # noqa: PLC0415 - most processes see no URL

    try:
        url = httpx2.URL(text)
        _ = url.host  # read back from its IDNA form, which not every host has
    except (httpx2.InvalidURL, ValueError):
        raise InvalidArgument(
            argument, "it is not a URL", accepted="an http or https address", example=_EXAMPLE
        ) from None
    return url


def _form_problem(url: httpx2.URL, options: WebhookOptions) -> str:
    if not url.host:
        return "it has no host"
    if url.scheme != "https" and not (url.scheme == "http" and options.allow_http):
        return f"the scheme {url.scheme[:20]!r} is not permitted"
    if url.port is not None and not 1 <= url.port <= HIGHEST_PORT:
        return f"the port {url.port} does not exist"
    return "it holds a user name or password" if url.userinfo else ""


def _host_problem(host: str, options: WebhookOptions) -> str:
    name = _plain(host)
    if "%" in name:
        return "the host has a character that no host has"
    try:
        address = literal(name)
    except ValueError:
        return "the host is a disguised IP address"
    if name == "localhost" or name.endswith(".localhost"):
        address = "127.0.0.1"
    permitted = address is None or options.permits(host, address)
    return "" if permitted else "the address is not public"


def _accepted(options: WebhookOptions) -> str:
    schemes = "http or https" if options.allow_http else "https"
    return f"{schemes} URLs of {'any host' if options.allow_private else 'public hosts'}"
