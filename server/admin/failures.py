"""Answers for what went wrong: a sentence for what a caller can mend, a plain page for a defect."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from http import HTTPStatus
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from duetime.scheduler.errors import DuetimeError, InvalidArgument, StaleRevision
from duetime.scheduler.remedies import nearest_name
from duetime.server.admin.answers import Page
from duetime.server.admin.assets import asset_url
from duetime.server.admin.page_request import Visit
from duetime.server.admin.protection import TOKEN_FIELD, protected
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

if TYPE_CHECKING:
    from duetime.scheduler.history.run_detail import RunDetail

_STATUS = {
    "not_found": HTTPStatus.NOT_FOUND,
    "scope_missing": HTTPStatus.FORBIDDEN,
    "foreign_form": HTTPStatus.FORBIDDEN,
    "invalid_argument": HTTPStatus.BAD_REQUEST,
    "invalid_arguments": HTTPStatus.BAD_REQUEST,
    "store_unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "server_busy": HTTPStatus.SERVICE_UNAVAILABLE,
}
_TITLES = {
    HTTPStatus.BAD_REQUEST: "A value is wrong",
    HTTPStatus.NOT_FOUND: "Not found",
    HTTPStatus.FORBIDDEN: "Not allowed",
    HTTPStatus.CONFLICT: "Not possible now",
}
SHOWN = "shown"
"""The field that says what a form was made from: a revision, as REST's If-Match names it."""

ONCE = "once"
"""The field by which a form that is sent again is known, so that it does what it did and no more."""

ONCE_BYTES = 8

SHOWN_OPEN = "open"
"""The field with the id of the run that a page showed as open."""

MAX_REVISION_DIGITS = 9
_MAX_WORD_CHARS = 60
_DEFECT = "This page could not be made. The log of the server says why."

log = logging.getLogger(__name__)

AdminEndpoint = Callable[[Request], Awaitable[Response]]


class StalePage(DuetimeError):
    """The task, pool or policy of a form has changed since; nothing was done. One made from `now` does it all the same.

    `kept` are the fields to send again, None for all.
    """

    code = "stale_revision"

    def __init__(self, sentence: str, now: object, kept: Collection[str] | None = None) -> None:
        super().__init__(f"{sentence} Nothing was done.")
        self.now = str(now)
        self.kept = kept

    def keeps(self, name: str) -> bool:
        """Whether a field is sent again."""
        return self.kept is None or name in self.kept or name in _UNTYPED


@contextmanager
def unchanged_task() -> Iterator[None]:
    """Run a change of a task. Raises StalePage where the task has changed since the page of the form."""
    try:
        yield
    except StaleRevision as stale:
        since = f": {'; '.join(stale.changes)}" if stale.changes else ""
        raise StalePage(f"The task was changed since this page was opened{since}.", stale.current) from None


class RunIsOver(DuetimeError):
    """The run of the form is over, and its task has a later run: nothing was changed."""

    code = "refused"

    def __init__(self, title: str) -> None:
        super().__init__(f"This run of {title!r} is over, and its task has a later one. Nothing was done to the task.")


class RunHasEnded(DuetimeError):
    """The run was open on the page of the form, which promised no second run."""

    code = "refused"

    def __init__(self, title: str) -> None:
        super().__init__(f"This run of {title!r} has ended since the page was opened. Nothing was done to the task.")


def new_once() -> str:
    """Return the name of a form that is made now."""
    return token_hex(ONCE_BYTES)


def check_still_open(found: RunDetail, *, shown_open: bool) -> None:
    """Raise RunHasEnded for a run that has ended since the page of the form showed it as open."""
    if shown_open and found.run.ended_at is not None:
        raise RunHasEnded(found.record.task.title)


@dataclass(frozen=True, slots=True)
class SentField:
    """A field of a form as it was sent; a `wrong` one is what the problem is about."""

    name: str
    label: str
    value: str
    wrong: bool


@dataclass(frozen=True, slots=True)
class Correction:
    """A form with what was sent, to be corrected and sent again to `path`; `hidden` has what no person typed."""

    method: str
    path: str
    fields: Sequence[SentField]
    hidden: Sequence[tuple[str, str]]

    @classmethod
    def of(cls, error: DuetimeError, visit: Visit, method: str) -> Correction | None:
        """Return the form for a wrong value or a stale page, None where nothing that was typed can be sent again."""
        if status_of(error) is not HTTPStatus.BAD_REQUEST and not isinstance(error, StalePage | TenantNotFound):
            return None
        sent = (visit.form if method == "POST" else visit.query).multi_items()
        if isinstance(error, StalePage):
            sent = [(name, error.now if name == SHOWN else value) for name, value in sent if error.keeps(name)]
        path = visit.here() if method == "POST" else visit.url(visit.path, tenant=None)
        about = "spec" if error.argument.startswith(POOL_PREFIX) else _FIELDS.get(error.argument, error.argument)
        return cls.to_send_again(method, path, sent, about)

    @classmethod
    def to_send_again(
        cls, method: str, path: str, sent: Sequence[tuple[str, str]], about: str = ""
    ) -> Correction | None:
        """Return the form for these fields, of which the one `about` a problem is wrong; None where none was typed."""
        typed = [(name, value) for name, value in sent if name == about or (value.strip() and name not in _UNTYPED)]
        fields = [SentField(name, _LABELS.get(name, name), value, name == about) for name, value in typed]
        hidden = [each for each in sent if each[0] in _UNTYPED - {TOKEN_FIELD, "cursor", about}]
        return cls(method.lower(), path, fields, hidden) if fields else None


POOL_PREFIX: Final = "pools."
"""Begins the name of a part of a pool's declaration, which is one field of a form."""

_FIELDS = {"pause_until": "until", "declaration": "spec", "actor": "who"}
"""Fields of forms by the argument that a problem names, where the names differ."""

_LABELS = {"spec": "declaration", "q": "search", "to": "paused until"}
_UNTYPED = frozenset(
    {
        TOKEN_FIELD,
        "after",
        "change",
        "close",
        "cursor",
        "do",
        "format",
        "list",
        ONCE,
        SHOWN_OPEN,
        "pause",
        "pick",
        "shadow",
        SHOWN,
        "tenant",
        "version",
    }
)


def problem(error: DuetimeError, correction: Correction | None = None, back: str = "", instead: str = "") -> Page:
    """Return the page that says what is wrong, with the form to correct it, the way back, and the one `instead`."""
    status = status_of(error)
    values = {
        "sentence": str(error),
        "status": status.value,
        "correction": correction,
        "back": back,
        "instead": instead,
    }
    return Page("problem.html", _TITLES.get(status, status.phrase), values, status)


def unknown(argument: str, word: str, accepted: Iterable[str], example: str = "") -> InvalidArgument:
    """Return the error for a value that is not accepted; its example is the first accepted one."""
    names = list(dict.fromkeys(accepted))
    text = f"{word[:_MAX_WORD_CHARS]!r} is not known"
    return InvalidArgument(argument, text, accepted=", ".join(names), example=example or names[0])


class UnknownAddress(DuetimeError):
    """The path of an address has a name that nothing can have."""

    code = "not_found"


class TenantNotFound(DuetimeError):
    """Nothing of the tenant that an operator chose was ever recorded: its name is mistyped, or it is not in use yet."""

    code = "not_found"

    def __init__(self, tenant: str) -> None:
        text = f"there is no {tenant[:_MAX_WORD_CHARS]!r}: nothing of it was ever recorded, and it has no API key."
        super().__init__(f"{text} Correct its name, or leave it empty for all tenants.", argument="tenant")


def check_names(visit: Visit) -> None:
    """Refuse names in an address that nothing has. Raises InvalidArgument, TenantNotFound and UnknownAddress."""
    if visit.principal.operator and visit.tenant is not None:
        chosen = replace(visit.principal, tenant=visit.tenant).tenant
        if chosen != visit.principal.tenant and not visit.store.audit.knows(chosen):
            raise TenantNotFound(chosen)
    if not all(part.isprintable() for part in visit.parts.values()):
        raise UnknownAddress("There is no such page: its address has a character that no name has.")


def refuse_unknown_parameters(visit: Visit, accepted: Collection[str]) -> None:
    """Raise InvalidArgument for a parameter of the address that the page does not read: its rows would not meet it."""
    names = sorted({*accepted, "tenant"})
    for name, value in visit.query.items():
        if value and name not in names:
            meant = nearest_name(name, names)
            example = f"{meant}={value[:_MAX_WORD_CHARS]}" if meant else ""
            text = "this page has no such filter"
            raise InvalidArgument(name[:_MAX_WORD_CHARS], text, accepted=", ".join(names), example=example)


def revision_shown(visit: Visit) -> int | None:
    """Return the revision that a form was made from, None where it names none."""
    shown = visit.form.get(SHOWN, "")
    return int(shown) if shown.isascii() and shown.isdigit() and len(shown) <= MAX_REVISION_DIGITS else None


def status_of(error: DuetimeError) -> HTTPStatus:
    return _STATUS.get(error.code, HTTPStatus.CONFLICT)


def shielded(endpoint: AdminEndpoint) -> AdminEndpoint:
    """Return the endpoint, whose exceptions become answers with the headers of every other answer."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except DuetimeError as error:
            return _plain(str(error), status_of(error))
        except HTTPException as refused:  # of a body that is longer than a request may be
            return _plain(refused.detail, HTTPStatus(refused.status_code))
        except Exception:
            log.exception("%s %s failed", request.method, request.scope["path"])
            return _plain(_DEFECT, HTTPStatus.INTERNAL_SERVER_ERROR)

    return answer


def _plain(sentence: str, status: HTTPStatus) -> Response:
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{status.phrase} · Duetime</title>'
        '<meta name="viewport" content="width=device-width">'
        f'<link rel="stylesheet" href="{asset_url("admin.css")}"></head>'
        f'<body><main><h1>{status.phrase}</h1><p class="said problem" role="alert">{escape(sentence)}</p>'
        f'<p><a href="/admin">Overview</a></p></main></body></html>'
    )
    return protected(HTMLResponse(page, status))
