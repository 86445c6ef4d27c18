"""The public keys of an authorization server (JWKS): fetched when needed, kept, and fetched again after a rotation."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
from duetime.scheduler.errors import DuetimeError
from jwt import PyJWK, PyJWTError

FETCH_TIMEOUT_S = 5.0
MAX_ISSUER_DOCUMENT_BYTES = 256 * 1024
KEYS_MAX_AGE_S = 600.0
"""Seconds after which keys are fetched again, so that a key that was withdrawn ends."""

STALE_KEYS_MAX_AGE_S = 3600.0
"""Seconds for which keys hold while the authorization server does not answer."""

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
"""Without compression: a few bytes would unfold to very many before they are counted."""

METADATA_PATHS = ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")

ISSUER_ERRORS = (
    *(httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, TimeoutError, OSError),
    *(PyJWTError, ValueError, TypeError, LookupError, AttributeError, RecursionError),
)
"""Errors of the libraries when a server is away, slow, or answers with anything but keys."""

log = logging.getLogger(__name__)

Fetch = Callable[[str], bytes]


class IssuerUnavailable(DuetimeError):
    """The authorization server does not answer, and no keys of it are known that are fresh enough."""

    code = "issuer_unavailable"


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A public key, and the one algorithm that it is for if it names one."""

    key: Any
    algorithm: str | None


class IssuerKeys:
    """The keys of one issuer. Thread-safe; one thread fetches, others that need its answer are asked to retry."""

    def __init__(
        self,
        issuer: str,
        jwks_url: str | None,
        *,
        refetch_s: float,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._refetch_s = refetch_s
        self._fetch = fetch or fetched
        self._clock = clock
        self._keys: Mapping[str, IssuerKey] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching = threading.Lock()

    def find(self, key_id: str | None) -> IssuerKey | None:
        """Return the key with this id; without an id the only key that there is. Raises IssuerUnavailable."""
        due = self._clock() - self._fetched_at > KEYS_MAX_AGE_S or self._known(key_id) is None
        outdated = due and not self._refresh()
        if self._clock() - self._fetched_at > STALE_KEYS_MAX_AGE_S:
            raise IssuerUnavailable(f"the keys of {self._issuer} cannot be fetched")
        found = self._known(key_id)
        if found is None and outdated:
            raise IssuerUnavailable(f"the newest keys of {self._issuer} are not known yet")
        return found

    def _known(self, key_id: str | None) -> IssuerKey | None:
        keys = self._keys
        if key_id is None:
            return next(iter(keys.values())) if len(keys) == 1 else None
        return keys.get(key_id)

    def _refresh(self) -> bool:
        """Fetch the keys unless that was tried a moment ago: whoever invents key ids causes no more than that.

        Returns False while another thread fetches them, and after a try that failed: what is known holds until then.
        """
        if not self._fetching.acquire(blocking=False):
            return False
        try:
            if self._clock() - self._tried_at >= self._refetch_s:
                self._tried_at = self._clock()
                self._keys = self._read()
                self._fetched_at = self._clock()
        except ISSUER_ERRORS as error:
            log.warning("cannot fetch the keys of %s: %s: %s", self._issuer, type(error).__name__, str(error)[:200])
        finally:
            self._fetching.release()
        return self._fetched_at >= self._tried_at

    def _read(self) -> Mapping[str, IssuerKey]:
        document = json.loads(self._fetch(self._jwks_url or self._discovered()))
        found = [(_id_of(entry, number), _key(entry)) for number, entry in enumerate(document["keys"])]
        keys = {key_id: key for key_id, key in found if key is not None}
        if not keys:
            raise ValueError("no key of the set can be used")
        return keys

    def _discovered(self) -> str:
        """Return the address of the keys as the metadata of the issuer has it (OpenID Connect, or RFC 8414)."""
        found = issuer_metadata(self._issuer, self._fetch)
        if found is None:
            raise ValueError("it has no metadata; set oauth_jwks_url")
        return address_of(found, "jwks_uri", self._issuer)


def issuer_metadata(issuer: str, fetch: Fetch) -> Mapping[str, Any] | None:
    """Return the metadata of an issuer, None where it has none. Raises ValueError for that of another one."""
    for address in _metadata_addresses(issuer):
        try:
            found: dict[str, Any] = json.loads(fetch(address))
        except ISSUER_ERRORS:
            continue
        if found["issuer"] != issuer:
            raise ValueError(f"the metadata is of {str(found['issuer'])[:100]!r}")
        return found
    return None


def address_of(metadata: Mapping[str, Any], name: str, issuer: str) -> str:
    """Return an address of the metadata; raises ValueError for one that is less safe than that of the issuer."""
    address = str(metadata[name])
    if urlsplit(address).scheme != "https" and urlsplit(issuer).scheme == "https":
        raise ValueError(f"its {name} is not an https:// address")
    return address


def _key(entry: Any) -> IssuerKey | None:
    """Read a public key; None for one that signs nothing, is malformed, or of a kind that is not known here."""
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or entry.get("kty") == "oct":
        return None
    try:
        return IssuerKey(PyJWK.from_dict(entry).key, entry.get("alg"))
    except (PyJWTError, ValueError, TypeError, AttributeError) as error:
        log.info("left out a key: %s", type(error).__name__)
        return None


def _id_of(entry: Any, number: int) -> str:
    return str(entry["kid"]) if isinstance(entry, dict) and "kid" in entry else f"without an id: {number}"


def _metadata_addresses(issuer: str) -> list[str]:
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    openid, oauth = METADATA_PATHS
    return [f"{origin}{path}{openid}", f"{origin}{oauth}{path}"]


def fetched(address: str, **sent: Any) -> bytes:
    """Return a document, or the answer to a form (`data`, `auth`).

    Raises httpx2.HTTPError, TimeoutError, and ValueError for one that is too long.
    """
    return asyncio.run(_fetched(address, sent))


async def _fetched(address: str, sent: Mapping[str, Any]) -> bytes:
    """Limit the whole time: httpx2 limits each wait alone, which a server that drips never exceeds."""
    found = bytearray()
    async with (
        asyncio.timeout(FETCH_TIMEOUT_S),
        httpx2.AsyncClient(timeout=FETCH_TIMEOUT_S, headers=_HEADERS) as client,
        client.stream("POST" if sent else "GET", address, **sent) as answer,
    ):
        answer.raise_for_status()
        async for part in answer.aiter_raw():
            found += part
            if len(found) > MAX_ISSUER_DOCUMENT_BYTES:
                raise ValueError(f"{address} has more than {MAX_ISSUER_DOCUMENT_BYTES} bytes")
    return bytes(found)
