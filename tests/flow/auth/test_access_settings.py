"""Settings of access: what would let strangers in stops the start, in a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler.errors import InvalidSetting
from duetime.server.settings.model import Settings

PUBLIC = "https://duetime.example.com"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_an_address_that_others_reach_needs_auth_and_a_public_name(host: str) -> None:
    with pytest.raises(InvalidSetting, match="set auth"):
        Settings(host=host)
    with pytest.raises(InvalidSetting, match="set public_url"):
        Settings(host=host, auth="keys")
    assert Settings(host=host, auth="keys", public_url=PUBLIC).resource == f"{PUBLIC}/mcp"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.0.0.2"])
def test_loopback_needs_neither(host: str) -> None:
    assert Settings(host=host).auth == ()


def test_the_server_goes_by_its_public_name_and_those_that_are_allowed() -> None:
    found = Settings(public_url=f"{PUBLIC}:8443/", allowed_hosts="server-1, server-2")
    assert found.host_names == ("duetime.example.com:8443", "server-1", "server-2")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"host": "duetime.example.com"}, "host"),
        ({"host": ""}, "host"),
        ({"auth": "password"}, "auth"),
        ({"public_url": "http://duetime.example.com"}, "public_url"),
        ({"public_url": "https://duetime.example.com/mcp"}, "public_url"),
        ({"public_url": "https://ann:secret@duetime.example.com"}, "public_url"),
        ({"public_url": "duetime.example.com"}, "public_url"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSetting, match=rf"^{named}.* is not accepted"):
        Settings(**wrong)


def test_plain_http_is_accepted_on_this_machine() -> None:
    assert Settings(public_url="http://127.0.0.1:8787").resource == "http://127.0.0.1:8787/mcp"
