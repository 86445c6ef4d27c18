"""Clients of one test process share the certificates of public authorities that they trust unless told otherwise.

To read them takes 20 to 30 ms of a processor, and each client of HTTP reads them, even one that speaks no TLS.
"""

from __future__ import annotations

import os
from functools import cache
from ssl import SSLContext

import httpcore2

NAMED_BY = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that name other certificates, which a test may set."""


def share() -> None:
    """Read certificates once for each place that the environment names."""
    read = httpcore2.default_ssl_context

    @cache
    def read_once(trust_env: bool, *named: str | None) -> SSLContext:
        return read(_trust_env=trust_env)

    def shared(*, _trust_env: bool = True) -> SSLContext:
        return read_once(_trust_env, *map(os.environ.get, NAMED_BY))

    httpcore2.default_ssl_context = shared
