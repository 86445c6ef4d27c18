"""Credentials in the text of an exception."""

from __future__ import annotations

import pytest
from duetime.scheduler.handlers.invocation import explain
from duetime.scheduler.rules.redact import redacted, redacted_json, restore_masked
from duetime.scheduler.task import Json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no answer from postgresql://app:hunter2@db/x", "no answer from postgresql://app:***@db/x"),
        ("https://u:p@ss:w0rd@h/a and more", "https://u:***@h/a and more"),
        ("GET /v1?api_key=abc123&page=2 failed", "GET /v1?api_key=***&page=2 failed"),
        ("password: hunter2, user: ann", "password: ***, user: ann"),
        ('{"client_secret": "hunter2", "id": 4}', '{"client_secret": "***", "id": 4}'),
        ("Authorization: Bearer abcdefgh.ijkl was refused", "Authorization: *** was refused"),
        ("tokens=12345678901234, tokens: 12ab", "tokens=***, tokens: ***"),
        ("sent Bearer abcdefghijkl", "sent Bearer ***"),
        ("Incorrect API key provided: sk-proj-abcdefgh12", "Incorrect API key provided: ***"),
        ("bad signature for whsec_QUJDREVGR0g=", "bad signature for ***"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2ln expired", "*** expired"),
        ("https://hooks.slack.com/services/T0/B0/abcdef", "https://hooks.slack.com/services/***"),
        ("https://discord.com/api/webhooks/123/ab-c_d?wait=1", "https://discord.com/api/webhooks/123/***?wait=1"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "***"),
    ],
)
def test_a_credential_that_can_be_told_by_its_form_is_replaced(text: str, shown: str) -> None:
    assert redacted(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: no such file",
        "the token expired yesterday",
        "https://example.com:8080/a@b",
        "a basic mistake: 4 of 5",
        "mailto:ann@example.com",
        "task-list is too long",
        "Example: @handler(..., needs={'tokens': 1200})",
        "max_tokens=4096, top_p=0.5",
    ],
)
def test_all_else_stays(text: str) -> None:
    assert redacted(text) == text


def test_values_named_like_a_secret_are_masked_wherever_they_stand() -> None:
    payload: dict[str, Json] = {
        "url": "https://example.com/hook?api_key=abc123",
        "headers": {"Authorization": "Bearer abcdefghijkl", "X-Api-Key": "k1", "Cookie": "id=1", "Accept": "text/html"},
        "body": [{"client_secret": {"old": "a", "new": "b"}, "user": "ann", "PASSWORD": 1234}],
        "max_tokens": 4096,
        "author": "ann",
        "secret": None,
        "has_token": True,
    }
    assert redacted_json(payload) == {
        "url": "https://example.com/hook?api_key=***",
        "headers": {"Authorization": "***", "X-Api-Key": "***", "Cookie": "***", "Accept": "text/html"},
        "body": [{"client_secret": "***", "user": "ann", "PASSWORD": "***"}],
        "max_tokens": 4096,
        "author": "ann",
        "secret": None,
        "has_token": True,
    }


def test_the_reason_of_a_failed_attempt_has_no_credential() -> None:
    error = ConnectionError("cannot reach redis://:hunter2@cache:6379/0")
    assert explain(error) == "ConnectionError: cannot reach redis://:***@cache:6379/0"


def test_a_long_text_of_an_exception_is_redacted_in_bounded_time() -> None:
    assert len(explain(ValueError("password " * 1_000_000))) <= 500


def test_a_changed_payload_keeps_its_masked_values() -> None:
    stored: Json = {"token": "s3cret-1", "list": [{"password": "p"}, "plain"], "url": "https://me:pw@x.test/", "n": 1}
    shown = redacted_json(stored)
    assert restore_masked(shown, stored) == stored
    assert isinstance(shown, dict)
    assert isinstance(stored, dict)
    changed = {**shown, "n": 2, "new": "***", "list": [{"password": "hunter2"}, "plain"]}
    assert restore_masked(changed, stored) == {
        **stored,
        "n": 2,
        "new": "***",
        "list": [{"password": "hunter2"}, "plain"],
    }
    assert restore_masked({"url": shown["url"]}, stored) == {"url": stored["url"]}
    assert restore_masked([1], {"n": 1}) == [1]
    assert restore_masked({"keys": ["a", "Bearer ***"]}, {"keys": ["x", "Bearer abcdefgh1234"]}) == {
        "keys": ["a", "Bearer abcdefgh1234"]
    }
