"""An operation: a route by its method, path and arguments. One table serves it, checks it and documents it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.principal import Principal, Scope
from duetime.tools.arguments.arguments import Argument
from pydantic import BaseModel

if TYPE_CHECKING:
    from duetime.scheduler.dispatch.pool_registry import PoolRegistry
    from duetime.scheduler.foresight.lateness import BacklogMonitor
    from duetime.scheduler.handlers import Handlers
    from duetime.scheduler.queue.remote import RemoteQueue
    from duetime.scheduler.runtime.traces import Tracing
    from duetime.scheduler.service.scheduler import Scheduler
    from duetime.scheduler.store import Store
    from duetime.server.settings.model import Settings
    from duetime.server.telemetry.observers import Observers


class Wakeable(Protocol):
    """The dispatcher of a process, which looks again when it is woken."""

    def wake(self) -> None: ...


class Installation(Protocol):
    """The parts of an application that operations work on."""

    @property
    def settings(self) -> Settings: ...

    @property
    def scheduler(self) -> Scheduler: ...

    @property
    def store(self) -> Store: ...

    @property
    def handlers(self) -> Handlers: ...

    @property
    def registry(self) -> PoolRegistry: ...

    @property
    def remote_queue(self) -> RemoteQueue: ...

    @property
    def backlog(self) -> BacklogMonitor: ...

    @property
    def runner(self) -> Wakeable: ...

    @property
    def observers(self) -> Observers: ...

    @property
    def tracing(self) -> Tracing: ...


@dataclass(frozen=True, slots=True)
class RestCall:
    """A request as an operation gets it: `values` by argument, from path, query and body together.

    `revision` is that of If-Match, `idempotency_key` the one of its header. Where If-Match names several,
    `other_revisions` are the rest.
    """

    parts: Installation
    by: Principal
    values: Mapping[str, Any]
    revision: int | None = None
    idempotency_key: str | None = None
    other_revisions: tuple[int, ...] = ()

    @property
    def scheduler(self) -> Scheduler:
        return self.parts.scheduler

    @property
    def task_id(self) -> str:
        return str(self.values["task_id"])

    def without(self, *names: str) -> dict[str, Any]:
        """Return the values of all other arguments."""
        return {name: value for name, value in self.values.items() if name not in names}


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """The answer to a request; `revision` becomes its ETag, `cursor` a link to the next page."""

    payload: BaseModel
    status: HTTPStatus = HTTPStatus.OK
    revision: int | None = None
    cursor: str | None = None
    location: str | None = None


def nothing_else(call: RestCall, given: Mapping[str, Any]) -> Sequence[InvalidArgument]:  # noqa: ARG001 - the signature of all
    """Find no further problem of a request that is refused anyway."""
    return ()


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path below `/v1`; `name` is its operationId.

    `body` is None where the request has none. `conditional` ones take If-Match, these and
    `tagged` ones answer with an ETag, `repeatable` ones Idempotency-Key.
    `created`: the answer may have the status 201. `also_wrong` finds further problems of a request that is refused.
    `before_answer` is awaited before the answer is made. `for_operators`: an administrator of one tenant is refused,
    before anything else of the request is read.
    """

    name: str
    method: str
    path: str
    summary: str
    answer: Callable[[RestCall], RestAnswer]
    model: type[BaseModel]
    scope: Scope = Scope.TASKS
    in_path: tuple[Argument, ...] = ()
    in_query: tuple[Argument, ...] = ()
    body: tuple[Argument, ...] | None = None
    conditional: bool = False
    repeatable: bool = False
    tagged: bool = False
    created: bool = False
    paged: bool = False
    for_operators: bool = False
    statuses: tuple[HTTPStatus, ...] = ()
    also_wrong: Callable[[RestCall, Mapping[str, Any]], Sequence[InvalidArgument]] = field(default=nothing_else)
    before_answer: Callable[[RestCall], Awaitable[None]] | None = None

    @property
    def route(self) -> str:
        """The path as its users write it."""
        return self.path.replace(":path", "")

    @property
    def tag(self) -> str:
        return self.path.split("/")[1]
