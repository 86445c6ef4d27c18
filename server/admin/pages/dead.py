"""Dead letters: runs that are out of attempts, and what is done with them: one, some, or the oldest of a filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.history.dead_letters import (
    MAX_REPLAYS,
    DeadLetter,
    DeadLetterFilter,
    DeadLetterNotFound,
    LettersClosed,
    LetterState,
    SkippedLetter,
)
from duetime.scheduler.intake.bounds import Bounds
from duetime.scheduler.intake.validation import MAX_PAGE_ROWS
from duetime.scheduler.service.letters.letter_call import MAX_LETTERS_CLOSED, USUAL_LETTERS_COUNT
from duetime.server.admin.answers import LIST_PARAMETERS, MAX_PROBLEMS_SHOWN, PAGE_ROWS, Answer, Moved, Page, get, post
from duetime.server.admin.bulk.undo import take_back, undo_of, why_no_undo
from duetime.server.admin.export import exported, first_rows, wanted_format
from duetime.server.admin.failures import ONCE, new_once, unknown
from duetime.server.admin.page_request import Visit
from duetime.server.admin.site import path_of
from duetime.tools.admin.letter_rows import LETTER_COLUMNS, letter_row

_TABS: Final = ((None, "open", None), ("replayed", "replayed", None), ("discarded", "discarded", None))
_VERBS_DONE: Final = {"replay": "Replayed", "discard": "Discarded"}
"""The acts on a letter, and the word for each when it is done."""

_TEXTS = {"q": "text", "action": "action", "label": "label", "task": "task_id"}
"""Parameters of the address, and the conditions of the filter that they set."""


@dataclass(frozen=True, slots=True)
class LetterQuery:
    """A filter with its bounds as instants, and the cursor that goes with them."""

    where: DeadLetterFilter
    bounds: Bounds

    @classmethod
    def of(cls, visit: Visit, given: Mapping[str, str]) -> LetterQuery:
        """Read an address or a form; times are words or dates in the viewer's zone. Raises InvalidArgument."""
        texts: dict[str, Any] = {name: given[key].strip() for key, name in _TEXTS.items() if given.get(key, "").strip()}
        since, until = (given.get(name, "").strip() or None for name in ("since", "until"))
        bounds = Bounds.of(given.get("cursor"), visit.now, visit.zone, since=since, until=until)
        return cls(DeadLetterFilter(state=_state(given.get("state", "")), **texts), bounds)

    def page(self, visit: Visit, limit: int, cursor: str | None) -> tuple[Sequence[DeadLetter], str | None]:
        """Return a page of letters, newest first."""
        return visit.scheduler.letters.page(
            self.where,
            **self.bounds.instants,
            limit=limit,
            cursor=cursor,
            tenant=visit.reach,
            by=visit.principal,
        )


def _state(word: str) -> LetterState:
    try:
        return LetterState(word or LetterState.OPEN)
    except ValueError:
        raise unknown("state", word, LetterState) from None


def dead_letters(visit: Visit) -> Answer:
    """Show a page of dead letters, send all of them as a file, or ask before some are closed."""
    query = LetterQuery.of(visit, visit.query)
    if file_format := wanted_format(visit):
        found, cut_at = first_rows(partial(query.page, visit), page_rows=MAX_PAGE_ROWS)
        return exported(file_format, "dead_letters", LETTER_COLUMNS, map(letter_row, found), cut_at=cut_at)
    closing = _closing(visit, query) if visit.may_change and visit.query.get("close") else None
    letters, cursor = query.page(visit, PAGE_ROWS, query.bounds.cursor)
    values = {
        "letters": letters,
        "following": query.bounds.following(cursor),
        "state": query.where.state,
        "tabs": _TABS,
        "closing": closing,
        "filtered": bool({*visit.query} - {"state", "tenant", "cursor", "close", "pick"}),
        "max_replays": MAX_REPLAYS,
        "live": closing is None and "cursor" not in visit.query,
    }
    return Page("pages/dead.html", "Dead letters", values)


# --- what would be done: counted before anybody says yes


@dataclass(frozen=True, slots=True)
class ClosingQuestion:
    """A question before letters are closed: those that are picked, or those of a filter, as they were `tried`.

    `fields` are sent back with the answer, so that what was counted is what is closed.
    """

    verb: str
    picked: Sequence[DeadLetter] = ()
    tried: LettersClosed = field(default_factory=partial(LettersClosed, 0))
    fields: Mapping[str, str] = field(default_factory=dict)
    needs_tenant: bool = False

    @property
    def to_close(self) -> list[DeadLetter]:
        """The selected letters that would not stay open."""
        run_ids = {letter.run_id for letter in self.tried.closed}
        return [letter for letter in self.picked if letter.run_id in run_ids]

    @property
    def number(self) -> int:
        """The number of letters to close."""
        return len(self.tried.closed) + self.tried.left

    @property
    def most(self) -> int:
        """The number that is closed unless somebody says otherwise."""
        return min(self.number, USUAL_LETTERS_COUNT)

    @property
    def to_do(self) -> int:
        """The number that the question is about: of a filter as many as are closed unless somebody says otherwise."""
        return self.number if self.picked else self.most

    @property
    def highest(self) -> int:
        return min(self.number, MAX_LETTERS_CLOSED)

    @property
    def stay(self) -> str:
        """The number of letters that would stay open, and why the first of them do."""
        return _skipped_text(self.tried, "would stay")


def _closing(visit: Visit, query: LetterQuery) -> ClosingQuestion:
    verb, picked = _verb(visit.query["close"]), visit.query.getlist("pick")
    if picked:
        letters = [each for each in _letters(visit, picked) if each.state is LetterState.OPEN]
        named = _named(partial(_closer(visit, verb), dry_run=True), letters)
        return ClosingQuestion(verb, letters, _together([*named.values()]))
    tenant = _one_tenant(visit)
    if tenant is None:
        return ClosingQuestion(verb, needs_tenant=True)
    until = visit.now + timedelta(microseconds=1)
    instants = {"until": until, **query.bounds.instants}
    texts = {key: visit.query[key] for key in _TEXTS if visit.query.get(key)}
    fields = {
        **texts,
        **{name: instant.isoformat() for name, instant in instants.items()},
        ONCE: new_once(),
    }
    close = _closer(visit, verb)
    tried = close(None, where=query.where, **instants, dry_run=True, tenant=tenant)
    return ClosingQuestion(verb, (), tried, fields)


def _verb(word: str) -> str:
    if word not in _VERBS_DONE:
        raise unknown("close", word, _VERBS_DONE)
    return word


def _closer(visit: Visit, verb: str) -> Callable[..., LettersClosed]:
    letters = visit.scheduler.letters
    return partial(letters.replay if verb == "replay" else letters.discard, by=visit.principal)


def _one_tenant(visit: Visit) -> str | None:
    """Return the tenant of which all that match are closed; None for an operator who has not chosen one."""
    return visit.tenant or (None if visit.app.settings.auth else visit.principal.tenant)


def _letters(visit: Visit, run_ids: Sequence[str]) -> list[DeadLetter]:
    """Return the letters of these runs that the visitor may see; one that is not there is left out."""
    reach = "*" if visit.principal.operator else None
    found = []
    for run_id in dict.fromkeys(run_ids):
        try:
            found.append(visit.scheduler.letters.get(run_id, tenant=reach, by=visit.principal))
        except DeadLetterNotFound:
            continue
    return found


# --- what is done


def close_letters(visit: Visit) -> Moved:
    """Replay or discard the letters that are named, or the oldest of a filter; say how many, and why not the others."""
    verb, picked = _verb(visit.form.get("close", "")), visit.form.getlist("pick")
    reason = visit.form.get("reason", "").strip() or None
    letters = _letters(visit, picked)
    if picked and not letters:
        raise DeadLetterNotFound(picked[0])
    close = partial(_closer(visit, verb), reason=reason)
    parts = _named(close, letters) if picked else _matching(visit, close)
    done = _together([*parts.values()])
    calls = [f"{part.undo} {tenant}" for tenant, part in parts.items() if part.undo and part.closed]
    text = " ".join(filter(None, (_outcome_text(verb, done), why_no_undo(calls))))
    return Moved(path_of(visit.form, "after"), text, undo_of(calls), "/dead/undo")


def _together(parts: Sequence[LettersClosed]) -> LettersClosed:
    if len(parts) == 1:
        return parts[0]
    closed = tuple(each for part in parts for each in part.closed)
    skipped = tuple(each for part in parts for each in part.skipped)
    return LettersClosed(len(closed) + len(skipped), closed=closed, skipped=skipped)


def _named(close: Callable[..., LettersClosed], letters: Sequence[DeadLetter]) -> dict[str, LettersClosed]:
    """Close letters that are named, those of each tenant in its own log."""
    of_tenants: dict[str, list[str]] = {}
    for letter in letters:
        of_tenants.setdefault(letter.tenant, []).append(letter.run_id)
    return {tenant: _of_tenant(close, named, tenant) for tenant, named in of_tenants.items()}


def _of_tenant(close: Callable[..., LettersClosed], named: list[str], tenant: str) -> LettersClosed:
    try:
        return close(named, max_letters=len(named), tenant=tenant)
    except Refused as refused:  # one alone
        return LettersClosed(1, skipped=(SkippedLetter(named[0], str(refused)),))


def _matching(visit: Visit, close: Callable[..., LettersClosed]) -> dict[str, LettersClosed]:
    tenant = _one_tenant(visit)
    if tenant is None:
        raise InvalidArgument("tenant", "it is missing", accepted="one tenant", example="acme")
    query = LetterQuery.of(visit, visit.form)
    most = _most(visit.form.get("most", ""))
    once = visit.form.get(ONCE)
    key = {"idempotency_key": f"admin-{once}"} if once else {}
    return {tenant: close(None, where=query.where, **query.bounds.instants, max_letters=most, tenant=tenant, **key)}


def _most(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_LETTERS_CLOSED)):
        accepted = f"1 to {MAX_LETTERS_CLOSED:,}"
        raise InvalidArgument(
            "most", "it is not a number in range", accepted=accepted, example=str(USUAL_LETTERS_COUNT)
        )
    return int(text)


def _outcome_text(verb: str, done: LettersClosed) -> str:
    sentences = [f"{_VERBS_DONE[verb]} {len(done.closed)}."]
    sentences += [f"{done.left:,}{'+' if done.at_least else ''} more match."] if done.left else []
    sentences += [f"{done.held_back:,} left out: replayed {MAX_REPLAYS} times before."] if done.held_back else []
    return " ".join([*sentences, *filter(None, [_skipped_text(done, "stay")])])


def _skipped_text(done: LettersClosed, stay: str) -> str:
    why = " ".join(each.why.removeprefix("run_id: ") for each in done.skipped[:MAX_PROBLEMS_SHOWN])
    return f"{len(done.skipped):,} {stay}: {why}" if done.skipped else ""


DEAD_ROUTES = (
    get("/dead", dead_letters, query={*_TEXTS, *LIST_PARAMETERS, "state", "close", "pick"}),
    post("/dead/close", close_letters),
    post("/dead/undo", take_back),
)
