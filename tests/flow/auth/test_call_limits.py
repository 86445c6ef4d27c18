"""Calls a minute: a tenant that makes more is told when the next is answered, and others notice nothing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from duetime.server.auth import call_limits
from duetime.server.auth.call_limits import CallLimits, TooManyCalls

from tests.flow.auth.conftest import serving


class Watch:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def refused(limits: CallLimits, tenant: str = "acme") -> int:
    with pytest.raises(TooManyCalls) as found:
        limits.take(tenant)
    return found.value.wait_s


def test_so_many_calls_are_answered_and_the_next_when_the_refusal_says() -> None:
    watch = Watch()
    limits = CallLimits(6, watch)
    for _ in range(6):
        limits.take("acme")
    assert refused(limits) == 10
    watch.now += 9.9
    assert refused(limits) == 1
    watch.now += 0.2
    limits.take("acme")
    refused(limits)


@pytest.mark.parametrize("limit", [1, 6, 7, 60, 90, 600])
@pytest.mark.parametrize("start", [0.1, 12_345.678, 3_000_000.3])
def test_a_caller_that_waits_as_long_as_it_was_told_is_answered(limit: int, start: float) -> None:
    watch = Watch()
    watch.now = start
    limits = CallLimits(limit, watch)
    for _ in range(limit):
        limits.take("acme")
    for _ in range(20):
        watch.now += refused(limits)
        limits.take("acme")
        with suppress(TooManyCalls):  # what else has come back, and a refusal that moves the count
            while True:
                limits.take("acme")


def test_calls_that_were_not_made_are_not_saved_up() -> None:
    watch = Watch()
    limits = CallLimits(2, watch)
    limits.take("acme")
    watch.now += 3600
    for _ in range(2):
        limits.take("acme")
    refused(limits)


def test_tenants_do_not_use_up_each_others_calls() -> None:
    limits = CallLimits(1, Watch())
    limits.take("acme")
    limits.take("globex")
    assert refused(limits) == refused(limits, "globex") == 60


def test_without_a_limit_every_call_is_answered() -> None:
    limits = CallLimits(0, Watch())
    for _ in range(1000):
        limits.take("acme")


def test_tenants_that_do_not_call_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_limits, "MAX_TENANTS_COUNTED", 3)
    watch = Watch()
    limits = CallLimits(1, watch)
    for tenant in "abc":
        limits.take(tenant)
    watch.now += 61
    limits.take("d")
    assert len(limits._buckets) == 1


@pytest.mark.anyio
async def test_a_call_too_many_is_answered_by_429_with_the_limit_and_the_time(tmp_path: Path) -> None:
    async with serving(tmp_path, auth="keys", tenant_calls_per_minute=2) as site:
        ann, bob, other = site.key("acme", "ann"), site.key("acme", "bob"), site.key("globex")
        for token in (ann, bob):
            assert (await site.modern(token, "tools/list")).status_code == 200
        answer = await site.modern(ann, "tools/call", name="schedule_task", arguments={"title": "x", "when": "now"})
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "30"
        assert answer.json()["error"] == "too_many_calls"
        assert "tenant_calls_per_minute: this tenant may make 2 calls a minute" in answer.json()["error_description"]
        assert len(answer.content) < 1024
        assert (await site.modern(other, "tools/list")).status_code == 200
        assert (await site.modern("dt_wrong", "tools/list")).status_code == 401
        assert site.app.store.history.latest() == 0
