"""A limit on wrong logins: who guesses keys is told to wait, and keeps nobody else out."""

from __future__ import annotations

import pytest
from duetime.server.admin.access import login_limits
from duetime.server.admin.access.login_limits import LOGIN_WINDOW_S, MAX_WRONG_LOGINS, LoginLimits

from tests.flow.admin.conftest import ORIGIN, Open

pytestmark = pytest.mark.anyio


async def test_an_address_that_guesses_keys_waits_and_no_other_one_does(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",), trusted_proxies=("127.0.0.1",))
    key = admin.site.key("acme", scopes=("admin",))

    async def tried(text: str, address: str) -> tuple[int, str]:
        headers = {"Origin": ORIGIN, "X-Forwarded-For": address}
        answer = await admin.http.post("/admin/login", data={"key": text}, headers=headers)
        return answer.status_code, answer.headers.get("retry-after", "") and answer.text

    for _ in range(MAX_WRONG_LOGINS):
        assert (await tried("nonsense", "203.0.113.9"))[0] == 401
    status, said = await tried(key, "203.0.113.9")
    assert status == 429
    assert "Try again in" in said
    assert (await tried(key, "203.0.113.10"))[0] == 303


async def test_a_tenant_that_has_made_all_its_calls_still_logs_in(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",), tenant_calls_per_minute=1)
    key = admin.site.key("acme", scopes=("admin", "tasks"))
    assert [(await admin.site.modern(key, "tools/list")).status_code for _ in range(2)] == [200, 429]
    assert (await admin.log_in(key)).status_code == 303
    assert (await admin.site.modern(key, "tools/list")).status_code == 429


def test_a_wrong_login_is_forgotten_after_a_while_and_a_network_of_ipv6_is_one_caller() -> None:
    now = [0.0]
    limits = LoginLimits(clock=lambda: now[0])
    for second in range(MAX_WRONG_LOGINS):
        now[0] = second
        limits.count(f"2001:db8::{second}")
    assert limits.wait_s("2001:db8::ffff") == LOGIN_WINDOW_S - now[0]
    assert limits.wait_s("2001:db8:1::1") == limits.wait_s("::ffff:192.0.2.1") == 0
    now[0] = LOGIN_WINDOW_S
    assert limits.wait_s("2001:db8::1") == 0


def test_callers_from_everywhere_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_limits, "MAX_ADDRESSES_KNOWN", 100)
    limits = LoginLimits(clock=lambda: 0.0)
    for number in range(300):
        limits.count(f"10.0.{number // 256}.{number % 256}")
        for _ in range(MAX_WRONG_LOGINS):
            limits.count("192.0.2.1")
    assert len(limits._wrong) == 100
    assert limits.wait_s("192.0.2.1") == LOGIN_WINDOW_S
