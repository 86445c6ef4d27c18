"""The handlers of one process, by action."""

from __future__ import annotations

import difflib
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import EntryPoints
from importlib.metadata import entry_points as installed
from types import ModuleType
from typing import Final, Self

from duetime.scheduler.errors import HandlerError, InvalidArgument, InvalidSetting
from duetime.scheduler.handlers.declaration import Handler
from duetime.scheduler.handlers.reminder import reminder
from duetime.scheduler.handlers.watch import WatchCheck, watch
from duetime.scheduler.handlers.webhook import webhook
from duetime.scheduler.outbound.target import WEBHOOK
from duetime.scheduler.outbound.url_policy import WebhookOptions
from duetime.scheduler.task import Json

ENTRY_POINT_GROUP: Final = "duetime.handlers"

_REQUEST: Final = re.compile(r"https?|curl|fetch|request|url|\bapi\b|\b(?:get|post|put)\b", re.IGNORECASE)
"""Names of actions by which a request to a server is meant."""

Plugin = Handler | WatchCheck
"""The two kinds of objects that a module of plug-ins declares."""


class Handlers(Mapping[str, Handler]):
    """A read-only registry; two different handlers of one action raise `HandlerError`.

    `webhooks` is the policy of all requests that runs send.
    """

    def __init__(self, handlers: Iterable[Handler] = (), *, webhooks: WebhookOptions | None = None) -> None:
        self.webhooks = webhooks or WebhookOptions()
        self._by_name: dict[str, Handler] = {}
        for item in handlers:
            self._add(item)

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
            found += _imported(f"entry point {point.name} = {point.value}", point.load)
        for name in modules:
            found += _imported(f"module {name}", partial(importlib.import_module, name))
        found += added
        checks = [item for item in found if isinstance(item, WatchCheck)]
        handlers = (item for item in found if isinstance(item, Handler))
        return cls([reminder, webhook(webhooks), watch(webhooks, checks), *handlers], webhooks=webhooks)

    def isolated(self, actions: Iterable[str]) -> Handlers:
        """Return these handlers, with those of `actions` isolated in processes.

        Raises `InvalidSetting` for an unknown action, and for a handler that another process cannot import.
        """
        named = set(actions)
        unknown = ", ".join(sorted(named.difference(self._by_name)))
        if unknown:
            raise InvalidSetting(f"isolated_actions: no action {unknown}; there are {', '.join(self._by_name)}")
        if "watch" in named:
            raise InvalidSetting("isolated_actions: watch runs in threads only; give its checks time-outs")
        try:
            return Handlers(
                (replace(item, isolation="process") if name in named else item for name, item in self._by_name.items()),
                webhooks=self.webhooks,
            )
        except HandlerError as error:
            raise InvalidSetting(f"isolated_actions: {error}") from error

    def get_or_explain(self, name: str, payload: Mapping[str, Json] | None = None) -> Handler:
        """Return the handler of an action, or raise `InvalidArgument` with the one that name and payload mean."""
        if name in self._by_name:
            return self._by_name[name]
        names = ", ".join(self._by_name)
        nearest = difflib.get_close_matches(str(name), self._by_name, n=1)
        requests = "url" in (payload or {}) or _REQUEST.search(str(name)[:64])
        usual = WEBHOOK if requests and WEBHOOK in self._by_name else next(iter(self._by_name), "")
        example = nearest[0] if nearest else usual
        raise InvalidArgument("action", f"no action {str(name)[:64]!r}", accepted=names, example=example)

    def __getitem__(self, name: str) -> Handler:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def _add(self, item: Handler) -> None:
        if item.isolation == "process":
            _check_importable(item)
        known = self._by_name.setdefault(item.name, item)
        if known is not item:
            raise HandlerError(
                f"two handlers are named {item.name!r}: {_origin(known)} and {_origin(item)}; rename one of them"
            )


@cache
def _installed(_path: tuple[str, ...]) -> EntryPoints:
    """Return the entry points of packages on this path; they are read once, as that opens a file a package."""
    return installed(group=ENTRY_POINT_GROUP)


def _check_importable(item: Handler) -> None:
    """Raise HandlerError unless another process finds the same function and model by their names."""
    from duetime.scheduler.handlers.messages import imported, reference  # noqa: PLC0415 - few handlers are isolated

    for thing in (item.fn, item.payload_model):
        if thing is not None:
            found = imported(reference(thing))
            if thing not in {found, getattr(found, "fn", None)}:
                raise HandlerError(f"handler {item.name}: {reference(thing)} now refers to something else; rename it")


def _origin(item: Handler) -> str:
    module = getattr(item.fn, "__module__", "?")
    return f"{module}.{getattr(item.fn, '__qualname__', item.name)}"


def _imported(source: str, load: Callable[[], object]) -> list[Plugin]:
    try:
        found = list(_plugins_in(load()))
    except (Exception, SystemExit) as error:
        cause = f"{type(error).__name__}: {error}"[:300]
        raise InvalidSetting(f"handlers: {source} cannot be loaded ({cause}); {_remedy(error)}") from error
    if not found:
        raise InvalidSetting(f'handlers: {source} declares no handler; put @handler("name") on a function in it')
    return found


def _remedy(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return "install it in Duetime's environment, add its folder to PYTHONPATH, or remove the setting"
    return "repair or remove it"


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
