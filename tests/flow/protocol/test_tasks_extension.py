"""A client that has the extension "tasks" keeps a handle of its wait, and asks when it likes; others wait as ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import anyio
import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from duetime.server.protocol.tasks_extension import TASKS_EXTENSION
from duetime.server.protocol.wait_handle import WaitHandle
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, Request, RequestParams, Result
from pydantic import ConfigDict

from tests.builders import Clock
from tests.flow.protocol.test_stdio import ERAS, MODERN, serving
from tests.flow.tools.calls import settled


class HandleParams(RequestParams):
    task_id: str


class Asked(Request[HandleParams, str]):
    """A request of the extension."""

    method: str
    params: HandleParams


class Answer(Result):
    """An answer with all that came."""

    model_config = ConfigDict(extra="allow")


class Handle(Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    status_message: str
    ttl_ms: int | None
    poll_interval_ms: int


class Kept(ClientExtension):
    """Keeps the handles of a client, which asks by them itself."""

    identifier = TASKS_EXTENSION

    def __init__(self) -> None:
        self.handles: list[Handle] = []

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Handle, resolve=self._keep)]

    async def _keep(self, handle: Handle, _ctx: ClaimContext) -> CallToolResult:
        self.handles.append(handle)
        return CallToolResult(content=[], is_error=True)  # the session takes an error alone without the task


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))


Talk = Callable[[Client], Awaitable[Any]]


def talk(
    scheduler: Scheduler,
    store: Store,
    said: Talk,
    *extensions: ClientExtension,
    by: Principal = LOCAL,
    era: str = "2026-07-28",
    monkeypatch: pytest.MonkeyPatch | None = None,
) -> Any:
    """Talk to a new server: no two calls of these tests share a process' memory."""
    if monkeypatch:
        monkeypatch.setattr("duetime.server.protocol.server.local_caller", lambda: by)
    server = make_server(lambda: scheduler, Subscriptions(lambda: store.history))

    async def run() -> Any:
        async with Client(server, mode=era, extensions=extensions) as client:
            return await said(client)

    return anyio.run(run)


def waiting(task_id: str, more: Mapping[str, Any] = MappingProxyType({})) -> Talk:
    return lambda client: client.call_tool("get_task", {"task_id": task_id, "wait": "30 s", **more})


def asking(handle: str, method: str = "tasks/get") -> Talk:
    asked = Asked(method=method, params=HandleParams(task_id=handle))
    return lambda client: client.session.send_request(asked, Answer)


def found(result: Result) -> dict[str, Any]:
    return result.model_dump(mode="json", by_alias=True)


def begun(scheduler: Scheduler, store: Store, task_id: str, **more: Any) -> str:
    kept = Kept()
    talk(scheduler, store, waiting(task_id, more), kept)
    [handle] = kept.handles
    return handle.task_id


def test_a_wait_is_answered_by_a_handle_at_once_and_by_the_run_when_it_has_ended(
    scheduler: Scheduler, store: Store
) -> None:
    task_id, kept = scheduler.schedule("Import", when="now", payload={"message": "x"}).record.task.id, Kept()
    talk(scheduler, store, waiting(task_id), kept)
    [handle] = kept.handles
    assert (handle.status, handle.ttl_ms, handle.poll_interval_ms) == ("working", None, 1_000)
    assert handle.status_message.startswith("The reminder is scheduled for Tue 24 Nov 2026 12:00 UTC")

    before = found(talk(scheduler, store, asking(handle.task_id), Kept()))
    assert (before["status"], before["resultType"], "result" in before) == ("working", "complete", False)
    settled(store, store.now(), Done("imported", {"rows": 7}))
    after = found(talk(scheduler, store, asking(handle.task_id), Kept()))
    assert (after["status"], after["taskId"]) == ("completed", handle.task_id)
    whole = CallToolResult.model_validate(after["result"])
    assert whole.structured_content is not None
    assert (whole.structured_content["state"], whole.structured_content["result"]) == ("succeeded", {"rows": 7})


def test_a_wait_is_over_at_its_time(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    handle = begun(scheduler, store, scheduler.schedule("Import", when="in 2 hours").record.task.id)
    clock.forward(seconds=29)
    assert found(talk(scheduler, store, asking(handle), Kept()))["status"] == "working"
    clock.forward(seconds=1)
    after = found(talk(scheduler, store, asking(handle), Kept()))
    assert (after["status"], after["result"]["structuredContent"]["state"]) == ("completed", "scheduled")


def test_of_a_recurring_task_the_run_of_the_call_is_waited_for(scheduler: Scheduler, store: Store) -> None:
    handle = begun(scheduler, store, scheduler.schedule("Import", when="now", repeat="every hour").record.task.id)
    settled(store, store.now(), Done("imported"))
    after = found(talk(scheduler, store, asking(handle), Kept()))
    assert (after["status"], after["result"]["structuredContent"]["last_run"]["state"]) == ("completed", "succeeded")


def test_the_answer_is_that_of_the_call_with_its_history(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    handle = begun(scheduler, store, scheduler.schedule("Import", when="in 2 hours").record.task.id, history=True)
    clock.forward(minutes=1)
    after = found(talk(scheduler, store, asking(handle), Kept()))
    assert "history" in after["result"]["structuredContent"]


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_a_client_without_the_extension_gets_the_answer_itself(scheduler: Scheduler, store: Store, era: str) -> None:
    task_id = scheduler.schedule("Import", when="in 2 hours").record.task.id
    said = talk(
        scheduler, store, lambda client: client.call_tool("get_task", {"task_id": task_id, "wait": 0.001}), era=era
    )
    assert said.structured_content["state"] == "scheduled"


def test_an_ended_run_and_a_wrong_call_are_answered_at_once(scheduler: Scheduler, store: Store) -> None:
    task_id, kept = scheduler.schedule("Import", when="in 2 hours").record.task.id, Kept()
    scheduler.cancel(task_id)
    assert talk(scheduler, store, waiting(task_id), kept).structured_content["state"] == "cancelled"
    for wrong in ({"wait": "6 min"}, {"task_id": "t_000000000000"}, {"unknown": 1}):
        assert talk(scheduler, store, waiting(task_id, wrong), kept).is_error
    assert not kept.handles


def test_the_end_of_a_wait_cancels_no_task(scheduler: Scheduler, store: Store) -> None:
    task_id = scheduler.schedule("Import", when="in 2 hours").record.task.id
    handle = begun(scheduler, store, task_id)
    for method in ("tasks/cancel", "tasks/update"):
        assert talk(scheduler, store, asking(handle, method), Kept()).meta is not None
    assert scheduler.get(task_id).record.run.state.value == "scheduled"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
def test_a_stranger_an_unknown_handle_and_an_undeclared_client_are_refused(
    scheduler: Scheduler, store: Store, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = begun(scheduler, store, scheduler.schedule("Import", when="in 2 hours").record.task.id)
    cases: list[tuple[str, Principal, tuple[ClientExtension, ...], int, str]] = [
        (handle, LOCAL, (), -32021, "required extension"),
        (handle, Principal("other", "eve"), (Kept(),), -32602, "no task"),
        ("nothing", LOCAL, (Kept(),), -32602, "taskId: it is not a handle"),
        (handle.replace("t_", "t_0"), LOCAL, (Kept(),), -32602, "no task"),
    ]
    for named, by, extensions, code, said in cases:
        error = talk(scheduler, store, refusal_of(asking(named, method)), *extensions, by=by, monkeypatch=monkeypatch)
        assert (error.code, said in error.error.message) == (code, True), error.error.message
        assert by is LOCAL or "Import" not in error.error.message


def refusal_of(asked: Talk) -> Talk:
    async def refused(client: Client) -> MCPError:
        with pytest.raises(MCPError) as error:
            await asked(client)
        return error.value

    return refused


def test_the_extension_is_declared_where_clients_discover_it(scheduler: Scheduler, store: Store) -> None:
    async def declared(client: Client) -> Any:
        return client.server_capabilities.extensions

    assert TASKS_EXTENSION in talk(scheduler, store, declared, era="auto")


def test_a_handle_is_read_as_it_was_written(scheduler: Scheduler) -> None:
    task_id = scheduler.schedule("Import", when="in 2 hours").record.task.id
    cases: list[tuple[Mapping[str, Any], float]] = [
        ({"wait": 0.25}, 0.25),
        ({"wait": "5 min", "history": True}, 300),
        ({"wait": 1, "keep_unread": True, "history": True}, 1),
    ]
    for given, length in cases:
        made = WaitHandle.of_call({"task_id": task_id, **given}, scheduler, LOCAL)
        assert made is not None
        read = WaitHandle.of_text(made[0].text)
        assert read is not None
        assert (read.text, read.until - read.since) == (made[0].text, timedelta(seconds=length))
        assert (read.call.history, read.call.keep_unread) == (made[0].call.history, made[0].call.keep_unread)
    for wrong in ("", "t_1", f"{task_id}.r_1.99999999999999.1.", f"{task_id}.r_1.1.1.kh", f"{task_id}.r_1.1.1.\n"):
        assert WaitHandle.of_text(wrong) is None


def test_a_process_over_stdio_speaks_it_on_the_wire(tmp_path: Path) -> None:
    capable = {**MODERN, "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
    with serving(tmp_path, ERAS[1]) as peer:
        assert TASKS_EXTENSION in peer.ask("server/discover")["result"]["capabilities"]["extensions"]
        task_id = peer.call("schedule_task", title="Import", when="in 2 hours")["structuredContent"]["id"]
        asked = {"name": "get_task", "arguments": {"task_id": task_id, "wait": "1 min"}, "_meta": capable}
        handle = peer.ask("tools/call", **asked)["result"]
        assert (handle["resultType"], handle["status"]) == ("task", "working")
        peer.call("cancel_task", task_id=task_id)
        after = peer.ask("tasks/get", taskId=handle["taskId"], _meta=capable)["result"]
        assert (after["resultType"], after["status"]) == ("complete", "completed")
        assert after["result"]["structuredContent"]["state"] == "cancelled"
        assert peer.ask("tasks/get", taskId=handle["taskId"])["error"]["code"] == -32021
        assert peer.ask("tasks/get", taskId=7, _meta=capable)["error"]["code"] == -32602
        assert peer.ask("tasks/get", _meta=capable)["error"]["code"] == -32602
