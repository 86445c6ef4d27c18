"""A small OpenID provider inside the test: it logs everybody in, and checks code, verifier and secret as a real one."""

from __future__ import annotations

import json
import secrets
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import jwt

from tests.flow.auth.issuer import RSA_KEY, Issuer

HEAD = '<!doctype html><title>Log in</title><link rel="icon" href="data:,">'
CLIENT_ID, CLIENT_SECRET = "duetime-admin", "s3cr3t/+"


class IdentityProvider(Issuer):
    """Answers what a test sets: `claims_of_user` and `signature` are of the next ID tokens."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.documents["/.well-known/openid-configuration"] |= {
            "authorization_endpoint": f"{url}/authorize",
            "token_endpoint": f"{url}/token",
        }
        self.claims_of_user: dict[str, Any] = {"scope": "openid admin"}
        self.signature: dict[str, Any] = {}
        self.is_public = self.broken = False
        self.codes: dict[str, dict[str, str]] = {}

    def authorize(self, asked: dict[str, str]) -> str:
        """Return the address to which the person goes back."""
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256"), asked
        assert (asked["client_id"], "openid" in asked["scope"].split()) == (CLIENT_ID, True)
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state'], 'iss': self.url})}"

    def token_for(self, form: dict[str, str], authorization: str) -> dict[str, str] | None:
        """Return the answer of the token endpoint, None for a refusal; a code is good once."""
        if self.broken:
            return {}
        begun = self.codes.pop(form.get("code", ""), None)
        known = form.get("client_id") == CLIENT_ID if self.is_public else self._is_client(authorization)
        challenge = urlsafe_b64encode(sha256(form.get("code_verifier", "").encode()).digest()).decode().rstrip("=")
        if begun is None or not known or form["redirect_uri"] != begun["redirect_uri"]:
            return None
        if challenge != begun["code_challenge"]:
            return None
        claims = {"aud": CLIENT_ID, "nonce": begun["nonce"], **self.claims_of_user}
        if self.signature.get("algorithm") == "none":
            return {"id_token": jwt.encode(self.claims(**claims), "", algorithm="none", headers={"kid": "first"})}
        return {"id_token": self.token(**{"key": RSA_KEY, **self.signature}, **claims)}

    @staticmethod
    def _is_client(authorization: str) -> bool:
        kind, _, sent = authorization.partition(" ")
        given = b64decode(sent).decode().split(":") if kind == "Basic" else []
        return [unquote(each) for each in given] == [CLIENT_ID, CLIENT_SECRET]


@contextmanager
def serving_provider(host: str = "127.0.0.1") -> Iterator[IdentityProvider]:
    """Serve a provider on loopback, under the name of a host."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                back = escape(provider.authorize(dict(parse_qsl(parts.query))))
                self._send(200, f'{HEAD}<a href="{back}">Continue as Ann</a>'.encode(), "text/html")
            else:
                self._answer(provider.documents.get(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer(provider.token_for(dict(parse_qsl(body)), self.headers.get("Authorization", "")), 400)

        def _answer(self, found: Any, missing: int = 404) -> None:
            self._send(missing if found is None else 200, json.dumps(found).encode(), "application/json")

        def _send(self, status: int, body: bytes, media_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider = IdentityProvider(f"http://{host}:{server.server_port}")
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield provider
        server.shutdown()
        thread.join()
