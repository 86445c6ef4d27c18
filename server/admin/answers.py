"""Answers and routes of admin pages: a function of a visit returns one of three answers, and a route leads to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from duetime.scheduler.principal import Scope
from duetime.server.admin.page_request import Visit

PAGE_ROWS = 50
MAX_PROBLEMS_SHOWN = 3
LIST_PARAMETERS: Final = frozenset({"cursor", "format", "since", "until"})
"""Parameters of every list that has pages and times."""


@dataclass(frozen=True, slots=True)
class Page:
    """A template and its values; `title` is that of the window.

    `tenant` is whose things it shows, where the address does not say so: for the audit of what operators read.
    """

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: HTTPStatus = HTTPStatus.OK
    tenant: str | None = None
    mark: str = ""
    """The state that it shows; a live page requests itself again when another one is reached."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A redirect to another admin page after a change; that page shows the sentence `notice` once.

    With `undo` the page has a button that takes the change back: a form of these values, sent to `undo_at`.
    """

    path: str
    notice: str = ""
    undo: tuple[str, ...] = ()
    undo_at: str = ""


@dataclass(frozen=True, slots=True)
class Download:
    """A file that is written while it is sent; `tenant` as in `Page`."""

    name: str
    media_type: str
    parts: Iterable[str]
    tenant: str | None = None


Answer = Page | Moved | Download
Handle = Callable[[Visit], Answer]


@dataclass(frozen=True, slots=True)
class AdminRoute:
    """A path below `/admin`, its function, and who may call it: with a scope, and only operators if so said.

    `query` are the parameters of its address, besides the tenant: any other one is refused. None accepts all.
    """

    method: str
    path: str
    handle: Handle
    scope: Scope
    operators: bool = False
    query: Collection[str] | None = None


def get(path: str, handle: Handle, *, operators: bool = False, query: Collection[str] | None = ()) -> AdminRoute:
    """Return the route of a page that only reads."""
    return AdminRoute("GET", path, handle, Scope.ADMIN_READ, operators, query)


def post(path: str, handle: Handle, *, operators: bool = False) -> AdminRoute:
    """Return the route of a form that changes something: scope `admin`, and a CSRF token that is checked before."""
    return AdminRoute("POST", path, handle, Scope.ADMIN, operators)
