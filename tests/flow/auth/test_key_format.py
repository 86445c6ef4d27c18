"""The text of an API key: unlike any other text, and matched by its digest alone."""

from __future__ import annotations

import pytest
from duetime.scheduler.access.bearer_token import BearerToken
from duetime.scheduler.waits.fire_address import FireToken
from duetime.server.auth.key_format import KeyText, is_key


def test_a_key_is_read_as_it_was_written() -> None:
    key = KeyText.new()
    again = KeyText.parse(key.text)
    assert again is not None
    assert again.text == key.text
    assert again.matches(key.digest)
    assert is_key(key.text)


def test_every_key_differs_in_both_parts() -> None:
    keys = [KeyText.new() for _ in range(50)]
    assert len({key.id for key in keys}) == len({key.secret for key in keys}) == 50


def test_the_secret_of_another_key_does_not_match() -> None:
    key = KeyText.new()
    other = KeyText(key.id, KeyText.new().secret)
    assert not other.matches(key.digest)


@pytest.mark.parametrize("kind", [KeyText, FireToken])
def test_a_secret_is_compared_with_the_whole_of_its_digest(kind: type[BearerToken]) -> None:
    token = kind.new()
    for place, digit in enumerate(token.digest):
        other = "0" if digit != "0" else "1"
        assert not token.matches(token.digest[:place] + other + token.digest[place + 1 :]), place
        assert not token.matches(token.digest[:place])


def test_a_key_is_not_shown_where_it_is_not_asked_for() -> None:
    key = KeyText.new()
    assert key.secret not in repr(key)
    assert key.secret not in key.digest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dt_",
        "dt_7k3m9qx2w4hb",
        f"dt_7k3m9qx2w4hb_{'0' * 63}",
        f"dt_7k3m9qx2w4hb_{'0' * 65}",
        f"dt_7k3m9qx2w4hb_{'0' * 64}\n",
        f"DT_7k3m9qx2w4hb_{'0' * 64}",
        f"dt_7k3m9qx2w4hi_{'0' * 64}",
        f"dt_7k3m9qx2w4hb_{chr(0x660) * 64}",
        f"dt_7k3m9qx2w4hb_{'0' * 1_000_000}",
        "eyJhbGciOiJub25lIn0.e30.",
    ],
)
def test_no_other_text_is_a_key(text: str) -> None:
    assert KeyText.parse(text) is None
