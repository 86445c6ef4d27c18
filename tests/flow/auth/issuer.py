"""A small authorization server inside the test: keys, metadata, and tokens that say whatever a test wants."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

AUDIENCE = "https://duetime.example.com/mcp"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def jwk(key: Any, key_id: str | None, **members: str) -> dict[str, Any]:
    """Return the public half of a key as a key set has it."""
    algorithm: Any = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    named = {"kid": key_id} if key_id is not None else {}
    return {**json.loads(algorithm.to_jwk(key.public_key())), **named, **members}


class Issuer:
    """Signs tokens, and serves its keys under `documents`; `asked` are the paths that were fetched."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[str] = []
        self.documents: dict[str, Any] = {
            "/.well-known/openid-configuration": {"issuer": url, "jwks_uri": f"{url}/keys"},
            "/keys": {"keys": [jwk(RSA_KEY, "first")]},
        }

    def fetch(self, address: str) -> bytes:
        """Answer as over the network; raises ValueError where there is nothing."""
        path = address.removeprefix(self.url)
        self.asked.append(path)
        if path not in self.documents:
            raise ValueError(path)
        return json.dumps(self.documents[path]).encode()

    def claims(self, **others: Any) -> dict[str, Any]:
        now = int(time.time())
        found = {
            "iss": self.url,
            "aud": AUDIENCE,
            "exp": now + 600,
            "iat": now,
            "sub": "ann",
            "tenant": "acme",
            "scope": "openid tasks",
        }
        return {name: value for name, value in {**found, **others}.items() if value is not None}

    def token(
        self, key: Any = RSA_KEY, *, algorithm: str = "RS256", headers: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        named = {"kid": "first"} if headers is None else headers
        return jwt.encode(self.claims(**claims), key, algorithm=algorithm, headers=named)


@contextmanager
def serving_issuer() -> Iterator[Issuer]:
    """Serve an issuer on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                body, status = issuer.fetch(self.path), 200
            except ValueError:
                body, status = b"", 404
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = Issuer(f"http://127.0.0.1:{server.server_port}")
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield issuer
        server.shutdown()
        thread.join()
