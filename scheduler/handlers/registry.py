"""The handlers of one process, by action."""

from __future__ import annotations

import importlib
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import EntryPoint, EntryPoints
from importlib.metadata import entry_points as installed
from threading import Timer
from types import ModuleType
from typing import Final, Self, TypeVar

from duetime.scheduler.errors import HandlerError, InvalidArgument, InvalidSetting
from duetime.scheduler.handlers.declaration import Handler
from duetime.scheduler.handlers.reminder import reminder
from duetime.scheduler.handlers.watch import WatchCheck, watch
from duetime.scheduler.handlers.webhook import webhook
from duetime.scheduler.outbound.target import WEBHOOK
from duetime.scheduler.outbound.url_policy import WebhookOptions
from duetime.scheduler.remedies import nearest_name
from duetime.scheduler.task import Json

ENTRY_POINT_GROUP: Final = "duetime.handlers"
SLOW_IMPORT_S: Final = 5.0
"""Seconds after which the log names the plug-in whose import the start still waits for."""

_REQUEST: Final = re.compile(r"https?|curl|fetch|request|url|\bapi\b|\b(?:get|post|put)\b", re.IGNORECASE)
"""Names of actions by which a request to a server is meant."""

Plugin = Handler | WatchCheck
"""The two kinds of objects that a module of plug-ins declares."""

PluginT = TypeVar("PluginT", Handler, WatchCheck)

log = logging.getLogger(__name__)


class Handlers(Mapping[str, Handler]):
    """A read-only registry; two different handlers of one action raise `HandlerError`, two checks of one name too.

    `webhooks` is the policy of all requests that runs send. `checks` are the checks of watches by their names.
    """

    def __init__(
        self,
        handlers: Iterable[Handler] = (),
        *,
        webhooks: WebhookOptions | None = None,
        checks: Iterable[WatchCheck] = (),
    ) -> None:
        self.webhooks = webhooks or WebhookOptions()
        self._by_name = _by_name("handlers", handlers)
        self.checks = _by_name("watch checks", checks)
        for item in self._by_name.values():
            if item.isolation == "process":
                _check_importable(item)

    @classmethod
    def load(
        cls,
        modules: Sequence[str] = (),
        *,
        entry_points: bool = True,
        webhooks: WebhookOptions | None = None,
        added: Iterable[Plugin] = (),
    ) -> Self:
        """Load the built-in handlers, those of installed packages and of the named modules, and those `added`.

        `webhooks` is the policy of the requests that `webhook` and `watch` send. Raises `InvalidSetting` with the
        module and the cause when one cannot be imported or declares no handler.
        """
        found: list[Plugin] = []
        for point in _installed(tuple(sys.path)) if entry_points else ():
            package = _package(point)
            source = f"entry point {point.name} = {point.value} of {package}"
            found += _imported(source, point.load, otherwise=f"uninstall {package}")
        for name in modules:
            load = partial(importlib.import_module, name)
            found += _imported(f"module {name}", load, otherwise="remove it from the setting")
        found += added
        checks = [item for item in found if isinstance(item, WatchCheck)]
        handlers = (item for item in found if isinstance(item, Handler))
        built_in = (reminder, webhook(webhooks), watch(webhooks, checks))
        return cls([*built_in, *handlers], webhooks=webhooks, checks=checks)

    def isolated(self, actions: Iterable[str]) -> Handlers:
        """Return these handlers, with those of `actions` isolated in processes.

        Raises `InvalidSetting` for an unknown action, and for a handler that another process cannot import.
        """
        named = set(actions)
        if elsewhere := sorted(named & self.external):
            raise InvalidSetting(f"isolated_actions: {elsewhere[0]} is an external action, which no process here runs")
        unknown = ", ".join(sorted(named.difference(self._by_name)))
        if unknown:
            raise InvalidSetting(f"isolated_actions: no action {unknown}; there are {', '.join(self._by_name)}")
        if "watch" in named:
            raise InvalidSetting("isolated_actions: watch runs in threads only; give its checks time-outs")
        try:
            return Handlers(
                (replace(item, isolation="process") if name in named else item for name, item in self._by_name.items()),
                webhooks=self.webhooks,
                checks=self.checks.values(),
            )
        except HandlerError as error:
            raise InvalidSetting(f"isolated_actions: {error}") from error

    @property
    def external(self) -> frozenset[str]:
        """The actions whose runs are executed elsewhere."""
        return frozenset(name for name, item in self._by_name.items() if item.lease is not None)

    def local(self) -> Handlers:
        """Return the handlers of the actions that workers of this installation execute themselves."""
        if not self.external:
            return self
        here = [item for item in self._by_name.values() if item.lease is None]
        return Handlers(here, webhooks=self.webhooks, checks=self.checks.values())

    def with_external(self, actions: Iterable[Handler]) -> Handlers:
        """Return these handlers and external actions. Raises `InvalidSetting` for the name of a handler."""
        added = list(actions)
        if not added:
            return self
        for item in added:
            if (other := self._by_name.get(item.name)) is not None:
                raise InvalidSetting(
                    f"external_actions: {item.name!r} is the action of a handler ({_origin(other)}). Accepted: a name "
                    f"that no handler has. Example: [external_actions.{item.name[:54]}-external]"
                )
        return Handlers([*self.values(), *added], webhooks=self.webhooks, checks=self.checks.values())

    def get_or_explain(self, name: str, payload: Mapping[str, Json] | None = None) -> Handler:
        """Return the handler of an action, or raise `InvalidArgument` with the one that name and payload mean."""
        if name in self._by_name:
            return self._by_name[name]
        names = ", ".join(self._by_name)
        requests = "url" in (payload or {}) or _REQUEST.search(str(name)[:64])
        usual = WEBHOOK if requests and WEBHOOK in self._by_name else next(iter(self._by_name), "")
        example = nearest_name(str(name), self._by_name) or usual
        raise InvalidArgument("action", f"no action {str(name)[:64]!r}", accepted=names, example=example)

    def __getitem__(self, name: str) -> Handler:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def _by_name(kind: str, items: Iterable[PluginT]) -> dict[str, PluginT]:
    """Return the items by their names. Raises HandlerError for two different ones of one name."""
    known: dict[str, PluginT] = {}
    for item in items:
        other = known.setdefault(item.name, item)
        if other is not item:
            raise HandlerError(
                f"two {kind} are named {item.name!r}: {_origin(other)} and {_origin(item)}; rename one of them"
            )
    return known


@cache
def _installed(_path: tuple[str, ...]) -> EntryPoints:
    """Return the entry points of packages on this path; they are read once, as that opens a file a package."""
    return installed(group=ENTRY_POINT_GROUP)


def _package(point: EntryPoint) -> str:
    """Return the name and the version of the package that an entry point is from."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"


def _check_importable(item: Handler) -> None:
    """Raise HandlerError unless another process finds the same function and model by their names."""
    from duetime.scheduler.handlers.messages import imported, reference  # noqa: PLC0415 - few handlers are isolated

    for thing in (item.fn, item.payload_model):
        if thing is not None:
            found = imported(reference(thing))
            if thing not in {found, getattr(found, "fn", None)}:
                raise HandlerError(f"handler {item.name}: {reference(thing)} now refers to something else; rename it")


def _origin(item: Plugin) -> str:
    """Return the function of a plug-in, with the package whose entry point names its module or one next to it."""
    module = str(getattr(item.fn, "__module__", "?"))
    points = (point for point in _installed(tuple(sys.path)) if _top_level(point.module) == _top_level(module))
    package = next((f" ({_package(point)})" for point in points), "")
    return f"{module}.{getattr(item.fn, '__qualname__', item.name)}{package}"


def _top_level(module: str) -> str:
    return module.partition(".")[0]


def _imported(source: str, load: Callable[[], object], *, otherwise: str) -> list[Plugin]:
    try:
        with _said_when_slow(source):
            found = list(_plugins_in(load()))
    except (Exception, SystemExit) as error:
        cause = f"{type(error).__name__}: {error}"[:300]
        raise InvalidSetting(f"handlers: {source} cannot be loaded ({cause}). {_remedy(error, otherwise)}.") from error
    if not found:
        raise InvalidSetting(f'handlers: {source} declares no handler. Put @handler("name") on a function in it.')
    return found


@contextmanager
def _said_when_slow(source: str) -> Iterator[None]:
    """Log which import the start waits for, since a module that never ends its import blocks it for ever."""
    text = "the start waits for the import of %s, which has taken more than %g s"
    timer = Timer(SLOW_IMPORT_S, log.warning, (text, source, SLOW_IMPORT_S))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _remedy(error: BaseException, otherwise: str) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"Install it in Duetime's environment, add its folder to PYTHONPATH, or {otherwise}"
    return f"Repair it, or {otherwise}"


def _plugins_in(found: object) -> Iterator[Plugin]:
    """Yield the plug-ins of an entry point or module: the object itself, a list, or a module's top level."""
    if isinstance(found, Handler | WatchCheck):
        yield found
    elif isinstance(found, ModuleType):
        yield from (value for value in vars(found).values() if isinstance(value, Handler | WatchCheck))
    elif isinstance(found, list | tuple):
        for item in found:
            yield from _plugins_in(item)
    else:
        raise HandlerError(f"expected a handler, a module or a list of handlers, got {type(found).__name__}")
