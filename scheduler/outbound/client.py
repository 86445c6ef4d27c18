"""The only HTTP client for addresses that users name, guarded against requests into private networks (SSRF).

A name is resolved once for each connection, and all of its addresses must be permitted. The connection goes to a
checked address, so a name that changes a moment later (DNS rebinding) gains nothing. Proxies of the environment are not
used, because a proxy would resolve the name again.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

import httpcore2
import httpx2
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.outbound.reply import Blocked, Reply, Resolver, Unreachable, system_resolver
from duetime.scheduler.outbound.url_policy import WebhookOptions, check_url
from duetime.scheduler.runtime.traces import request_span

MAX_REDIRECTS: Final = 3
TRACEPARENT: Final = "traceparent"
MAX_RESPONSE_BYTES: Final = 64 * 1024
CONNECT_TIMEOUT_S: Final = 5.0
MAX_ADDRESSES: Final = 3
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class GuardedClient:
    """Sends single requests within `WebhookOptions`; thread-safe, and keeps no connection open.

    More of an answer than `max_bytes` is not read.
    """

    def __init__(
        self,
        options: WebhookOptions,
        *,
        resolve: Resolver = system_resolver,
        tls: ssl.SSLContext | None = None,
        max_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self._options = options
        self._max_bytes = max_bytes
        self._resolve = resolve
        self._own_tls = tls

    def send(self, method: str, url: str, *, headers: dict[str, str], body: bytes = b"") -> Reply:
        """Send a request and return the answer, whatever its status. Raises `Unreachable` or `Blocked`.

        At most 3 redirects are followed, for GET only, and each is checked like the first address; `headers` are not
        sent to another origin. Header names are in lower case. A traced request has a `traceparent` too.
        """
        target = self._checked(url)
        with request_span(method, target.host, target.port) as span:
            traced = {} if TRACEPARENT in headers else span.headers  # never one trace with the state of another
            reply = self._sent(method, target, {**traced, **headers}, body)
            span.answered(reply.status)
            return reply

    def _sent(self, method: str, target: httpx2.URL, headers: dict[str, str], body: bytes) -> Reply:
        deadline = time.monotonic() + self._options.timeout
        for _ in range(MAX_REDIRECTS + 1):
            reply = self._once(method, target, headers, body, deadline)
            if reply.status not in _REDIRECTS:
                return reply
            before, target = target, self._checked(_location(method, target, reply))
            headers = headers if _origin(before) == _origin(target) else {}
        raise Blocked(f"{target.host} redirected more than {MAX_REDIRECTS} times; use the final address")

    def _checked(self, url: str) -> httpx2.URL:
        try:
            return check_url("url", url, self._options)
        except InvalidArgument as error:
            raise Blocked(str(error)) from None

    def _once(self, method: str, url: httpx2.URL, headers: dict[str, str], body: bytes, deadline: float) -> Reply:
        sent = {"Host": url.netloc.decode("ascii"), "User-Agent": "duetime", "Accept-Encoding": "identity"} | dict(
            headers
        )
        try:
            with (
                self._pool(deadline) as pool,
                pool.stream(
                    method,
                    httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                    headers=list(sent.items()),
                    content=None if method == "GET" else body,
                    extensions={"timeout": {"connect": CONNECT_TIMEOUT_S}},
                ) as response,
            ):
                return Reply(response.status, _headers(response), _capped(response.iter_stream(), self._max_bytes))
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError) as error:
            raise Unreachable(f"{url.host}: {_cause(error)}") from error

    def _pool(self, deadline: float) -> httpcore2.ConnectionPool:
        guard, tls = _Guard(self._options, self._resolve, deadline), self._own_tls or _public_tls()
        return httpcore2.ConnectionPool(ssl_context=tls, network_backend=guard, max_keepalive_connections=0)


@cache
def _public_tls() -> ssl.SSLContext:
    """Return the context that trusts public authorities; reading their certificates takes 20 ms."""
    return httpx2.create_ssl_context(trust_env=False)


class _Guard(httpcore2.NetworkBackend):
    """Opens connections to permitted addresses only, and ends them at the deadline."""

    def __init__(self, options: WebhookOptions, resolve: Resolver, deadline: float) -> None:
        self._options = options
        self._resolve = resolve
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        failure: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in self._permitted(host, port)[:MAX_ADDRESSES]:
            try:
                left = _left(self._deadline, timeout)
                plain = httpcore2.SyncBackend().connect_tcp(address, port, left, local_address, socket_options)
                return _Bounded(plain, self._deadline)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    def _permitted(self, host: str, port: int) -> Sequence[str]:
        try:
            found = self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(f"the host name cannot be resolved ({type(error).__name__})") from error
        if not all(self._options.permits(host, address) for address in found):
            raise Blocked(
                f"{host} leads to an address that is not public; an administrator can allow it "
                f"with webhook_allow_hosts={host}"
            )
        return found


class _Bounded(httpcore2.NetworkStream):
    """A stream that ends at a deadline, however slowly bytes arrive."""

    def __init__(self, inner: httpcore2.NetworkStream, deadline: float) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(self._deadline, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _left(self._deadline, timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        secured = self._inner.start_tls(ssl_context, server_hostname, _left(self._deadline, timeout))
        return _Bounded(secured, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _left(deadline: float, timeout: float | None) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore2.ReadTimeout("no complete answer in time")
    return left if timeout is None else min(left, timeout)


def _capped(chunks: Iterable[bytes], limit: int) -> bytes:
    body = b""
    for chunk in chunks:
        body += chunk
        if len(body) >= limit:
            break
    return body[:limit]


def _headers(response: httpcore2.Response) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}


def _cause(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _location(method: str, url: httpx2.URL, reply: Reply) -> str:
    if method != "GET":
        raise Blocked(f"{url.host} answered with a redirect ({reply.status}), which {method} does not follow")
    try:
        return str(url.join(reply.headers.get("location", "")))
    except httpx2.InvalidURL:
        raise Blocked(f"{url.host} redirects to an invalid URL") from None


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
