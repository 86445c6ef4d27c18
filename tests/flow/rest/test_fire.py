"""Fire addresses over HTTP: the world starts one task by a token in the path, which nothing repeats or keeps."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.handlers import Context, Handler, handler
from duetime.scheduler.outcomes import Done, Outcome
from duetime.scheduler.waits.fire_address import FireToken
from duetime.server.auth.call_limits import CallLimits
from duetime.server.rest.signals import fire as fire_routes

from tests.flow.auth.conftest import Site, serving
from tests.flow.rest.conftest import made, sent

pytestmark = pytest.mark.anyio


@handler("deploy")
def deploy(ctx: Context) -> Outcome:
    """Say by what it was started."""
    event = ctx.event
    return Done("deployed", [event.name, event.id, dict(event.data)] if event else None)


DEPLOY: list[Handler] = [deploy]


async def address(site: Site, token: str | None = None, **arguments: Any) -> tuple[str, str]:
    """Return a task, and the path of its address below `/v1`."""
    task = await made(site, token, **{"when": "in 2 hours", **arguments})
    answer = await sent(site, "POST", f"/tasks/{task['id']}/address", token=token, body={})
    assert answer.status_code == 201, answer.text
    path: str = answer.json()["path"]
    assert path.startswith("/v1/fire/df_")
    return task["id"], path.removeprefix("/v1")


async def test_the_address_alone_starts_its_task_without_a_key(tmp_path: Path) -> None:
    async with serving(tmp_path, auth="keys", handlers=DEPLOY) as site:
        ann = site.key()
        task_id, path = await address(site, ann, title="Deploy", action="deploy")
        answer = await sent(site, "POST", path, body={"ref": "main"}, headers={"Idempotency-Key": "push-7"})
        assert (answer.status_code, answer.json()) == (
            200, {"schema": "duetime.fired/1", "event_id": "push-7", "repeated": False},
        )  # fmt: skip
        again = await sent(site, "POST", path, body={"ref": "other"}, headers={"Webhook-Id": "push-7"})
        assert again.json()["repeated"]
        shown = await sent(site, "GET", f"/tasks/{task_id}?wait=20%20s", token=ann)
        assert shown.json()["result"] == ["fire", "push-7", {"ref": "main"}], shown.text


async def test_every_other_address_is_answered_alike(guarded: Site) -> None:
    ann = guarded.key()
    task_id, path = await address(guarded, ann)
    token = FireToken.parse(path.removeprefix("/fire/"))
    assert token is not None
    strangers = [
        f"/fire/{FireToken(token.id, '0' * 64).text}",
        f"/fire/{FireToken(token.id, token.secret[:-1] + ('0' if token.secret[-1] != '0' else '1')).text}",
        f"/fire/{FireToken.new().text}",
        f"/fire/df_{token.id}",
        f"/fire/{task_id}",
        "/fire/x",
        "/fire/x/y",
        f"{path}0",
        f"{path}/",
        "/fire/%00",
        f"/fire/{'a' * 5000}",
    ]
    answers = [await sent(guarded, "POST", each, body={"order": 7}) for each in strangers]
    answers += [await sent(guarded, "POST", strangers[0], content=each) for each in (b"no json", b"[" * 70_000)]
    other = await address(guarded, guarded.key("globex"))
    for each in (path, other[1]):
        task = (task_id, ann) if each == path else (other[0], guarded.key("globex"))
        await sent(guarded, "POST", f"/tasks/{task[0]}/cancel", token=task[1], body={})
        answers.append(await sent(guarded, "POST", each, body={}))
    assert {(each.status_code, each.text) for each in answers} == {(404, answers[0].text)}


async def test_the_tasks_of_others_get_no_address(guarded: Site) -> None:
    task_id, path = await address(guarded, guarded.key())
    eve = guarded.key("globex")
    for verb in ("address", "address/revoke"):
        refused = await sent(guarded, "POST", f"/tasks/{task_id}/{verb}", token=eve, body={})
        assert refused.status_code == 404
        assert (await sent(guarded, "POST", f"/tasks/{task_id}/{verb}", body={})).status_code == 401
    assert (await sent(guarded, "POST", path, body={}, token=eve)).status_code == 200, "the address is the right"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 200),
        (b"{}", 200),
        (b'{"a": 1}', 200),
        (b"a=1&b=2", 400),
        (b'{"a": 1, "a": 2}', 400),
        (b'{"a": {"b": 1, "b": 2}}', 400),
        (b"\xff\xfe", 400),
        (b"[" * 60_000, 400),
        (b"[1]", 422),
        (b'"text"', 422),
        (b"null", 200),
        (b'{"a": NaN}', 400),
        (b'{"a": "' + b"x" * 40_000 + b'"}', 422),
        (b'{"a": "' + b"x" * 70_000 + b'"}', 413),
        (b"x" * 2_000_000, 413),
        (b'{"a": "\\ud800"}', 422),
        (b'{"a":' * 900 + b"1" + b"}" * 900, 400),
    ],
)
async def test_a_body_is_an_object_of_bounded_size_or_nothing(site: Site, body: bytes, status: int) -> None:
    _, path = await address(site)
    answer = await sent(site, "POST", path, content=body)
    assert answer.status_code == status, answer.text
    assert (await sent(site, "POST", path, body={})).status_code == 200, "what was refused has left nothing"


async def test_ids_of_the_world_are_one_id_whatever_they_hold(site: Site) -> None:
    _, path = await address(site, repeat="every hour")
    odd = {"Idempotency-Key": "ignore all orders, and cancel"}
    first = (await sent(site, "POST", path, headers=odd)).json()
    assert first["event_id"].startswith("h-")
    assert (await sent(site, "POST", path, headers=odd)).json() == {**first, "repeated": True}
    in_body = [(await sent(site, "POST", path, body={"event_id": "evt_1"})).json()["repeated"] for _ in range(2)]
    assert in_body == [False, True]
    alone = [(await sent(site, "POST", path, body={})).json()["repeated"] for _ in range(2)]
    assert alone == [False, False], "without an id each call is one of its own"


async def test_a_sender_is_told_why_nothing_started_in_words_that_name_no_call_and_no_task(site: Site) -> None:
    task_id, path = await address(site, repeat="every hour")
    assert (await sent(site, "POST", f"/tasks/{task_id}/pause", body={})).status_code == 200
    answer = await sent(site, "POST", path)
    assert answer.status_code == 409
    assert answer.json()["detail"] == "The task is paused. Nothing was done; repeat the call later."
    assert answer.json()["code"] == "refused"


async def test_an_address_is_shown_once_and_ends_when_it_is_renewed_or_revoked(site: Site) -> None:
    task_id, path = await address(site)
    refused = await sent(site, "POST", f"/tasks/{task_id}/address", body={})
    assert refused.status_code == 409
    assert "has a fire address already" in refused.json()["detail"]
    renewed = (await sent(site, "POST", f"/tasks/{task_id}/address", body={"renew": True})).json()["path"][3:]
    assert (await sent(site, "POST", path)).status_code == 404
    assert (await sent(site, "POST", renewed)).status_code == 200
    for had in (True, False):
        assert (await sent(site, "POST", f"/tasks/{task_id}/address/revoke", body={})).json()["revoked"] is had
    assert (await sent(site, "POST", renewed)).status_code == 404
    assert (await sent(site, "GET", renewed)).status_code == 405


async def test_an_address_that_is_called_too_often_is_refused_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fire_routes, "CallLimits", partial(CallLimits, clock=lambda: 0.0))
    async with serving(tmp_path) as site:
        _, path = await address(site, repeat="every hour")
        statuses = [(await sent(site, "POST", path)).status_code for _ in range(fire_routes.MAX_CALLS_OF_ADDRESS + 1)]
        assert statuses == [200] * fire_routes.MAX_CALLS_OF_ADDRESS + [429]
        refused = await sent(site, "POST", path)
        assert refused.headers["Retry-After"] == "1"
        _, other = await address(site)
        assert (await sent(site, "POST", other)).status_code == 200, "each address has a limit of its own"
        left = fire_routes.MAX_CALLS_OF_CLIENT - len(statuses) - 2
        unknown = [(await sent(site, "POST", "/fire/x")).status_code for _ in range(left + 1)]
    assert unknown == [404] * left + [429], "an address of the network that guesses is slowed down"


async def test_nothing_keeps_or_says_the_secret_of_an_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(tmp_path) as site:
        task_id, path = await address(site, title="Deploy", repeat="every hour")
        token = path.removeprefix("/fire/")
        secret = token.rpartition("_")[2]
        await sent(site, "POST", path, body={"order": 7})
        monkeypatch.setattr(site.app.scheduler.addresses, "fire", _broken)
        assert (await sent(site, "POST", path)).status_code == 500
        pages = ("/events", "/audit", f"/tasks/{task_id}?history=true")
        said = [(await sent(site, "GET", each)).text for each in pages]
        logged = [each.getMessage() for each in caplog.records if not each.name.startswith("httpx")]  # the client's own
        said += [*logged, repr(FireToken.parse(token)), str(site.app.store.fire_addresses.find(token[3:15]))]
        assert "defect" in caplog.text
    with closing(sqlite3.connect(tmp_path / "duetime.db")) as database, database:
        said += list(database.iterdump())
    assert [text for text in said if secret in text] == []
    assert any(token[3:15] in text for text in said), "its public half is what the store finds it by"


def _broken(*_given: Any, **_more: Any) -> Any:
    raise RuntimeError("broken")
