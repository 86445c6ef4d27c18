"""Checks of single arguments, for length, number and range; collects the problems of all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, ParamSpec, TypeVar

from duetime.scheduler.audit.entry import AuditFilter
from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.events import EventFilter
from duetime.scheduler.history.dead_letters import DeadLetterFilter
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.intake.corrected_example import corrected
from duetime.scheduler.principal import ALL_TENANTS, Principal
from duetime.scheduler.request import NotifyWord, Request, never_reminds
from duetime.scheduler.rules.retry import as_policy, is_sound
from duetime.scheduler.rules.sanitize import check_characters, check_text
from duetime.scheduler.rules.time.durations import parse_exact
from duetime.scheduler.rules.time.tokens import Misread, Unknown
from duetime.scheduler.task import Notify
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.views import TaskFilter

P = ParamSpec("P")
T = TypeVar("T")

MAX_TASKS_COUNTED = 1_000
"""Tasks of a state that a list counts: the exact number of more is of no use, and costs by how many it is."""

MAX_WAIT_S: Final = 300.0
WAIT_EXAMPLE: Final = "wait='30 s'"
MAX_LABELS = 10
MAX_LABEL_CHARS = 60
MAX_KEY_CHARS = 200
_OWN_KEYS: Final = ("batch:", "closed:", "derived:", "latest-batch:")
"""Beginnings of the keys that are made here, in the same table as those of callers."""
MAX_FILTER_CHARS = 200
MAX_CALLER_REASON_CHARS = 200
MAX_PAGE_ROWS = 100
MAX_FILE_PAGE_ROWS = 1_000
"""Rows of a page for a file: the statements of a page of runs cost as much as 200 of its rows."""

MAX_SERIES_RUNS = 1_000_000


_FILTER_TEXTS = (
    *("query", "text", "title", "error", "label", "action", "task_id", "worker", "actor", "via", "pool", "surface"),
    "subject",
)


def check_key(request: Request) -> None:
    """Refuse a request whose idempotency key is empty, too long or unreadable."""
    check_key_text(request.idempotency_key)


def check_key_text(key: str | None) -> None:
    """Refuse an idempotency key that is empty, too long, unreadable, or of the scheduler's own; None is none."""
    if key is not None:
        check_text("idempotency_key", key, limit=MAX_KEY_CHARS)
        refuse_own_key(key)


def refuse_own_key(key: str) -> None:
    """Refuse a key of a caller that could be one of those that are made here. Raises InvalidArgument."""
    if key.startswith(_OWN_KEYS):
        own = next(each for each in _OWN_KEYS if key.startswith(each))
        raise InvalidArgument(
            "idempotency_key",
            f"keys that begin with {own!r} are the scheduler's own",
            accepted="a key with another beginning",
            example="idempotency_key='weekly-report'",
        )


def check_reason(reason: str | None) -> None:
    """Refuse a reason that is too long or unreadable."""
    if reason is not None:
        check_characters("reason", reason, limit=MAX_CALLER_REASON_CHARS)


def check_filter(where: TaskFilter | EventFilter | RunFilter | DeadLetterFilter | AuditFilter) -> None:
    """Refuse a filter with a text that is too long for anything to have, or unreadable."""
    for name in _FILTER_TEXTS:
        text = getattr(where, name, None)
        if text is not None:
            check_characters(name, text, limit=MAX_FILTER_CHARS, lines=True)


def check_retry(request: Request | Reschedule) -> None:
    """Refuse a retry policy with no attempts, endless attempts, or shrinking delays."""
    policy = as_policy(request.retry)
    if policy is not None and not is_sound(policy):
        raise InvalidArgument(
            "retry",
            "out of range",
            accepted="max_attempts 1 to 100 and 0 < backoff_seconds <= max_backoff_seconds",
            example="{'max_attempts': 5, 'backoff_seconds': 1, 'max_backoff_seconds': 3600}",
        )


def check_notify(request: Request | Reschedule) -> None:
    """Refuse an unknown value of `notify`."""
    if request.notify is not None and request.notify not in set(Notify):
        raise InvalidArgument(
            "notify",
            f"{str(request.notify)[:40]!r} is not a known value",
            accepted=", ".join(Notify),
            example="notify='failure'",
        )


def silent_note(action: str, notify: NotifyWord | None) -> tuple[str, ...]:
    """Say that a reminder can notify nobody."""
    if not never_reminds(action, notify):
        return ()
    text = f"this reminder will notify nobody, because of notify='{notify}'; notify='always' reminds the user"
    return (Translatable.of(NoteKind.SILENT, text),)


def check_labels(request: Request | Reschedule) -> None:
    """Refuse too many labels, and one that is too long or unreadable."""
    labels = request.labels or ()
    if len(labels) > MAX_LABELS:
        kept = repr([str(label)[:MAX_LABEL_CHARS] for label in labels[:MAX_LABELS]])
        raise InvalidArgument("labels", f"{len(labels)} labels", accepted=f"up to {MAX_LABELS}", example=kept)
    for label in labels:
        if len(str(label)) > MAX_LABEL_CHARS:
            problem, cut = f"one has {len(label)} characters", [str(each)[:MAX_LABEL_CHARS] for each in labels]
            raise InvalidArgument("labels", problem, accepted=f"up to {MAX_LABEL_CHARS} each", example=repr(cut))
        check_text("labels", label, limit=MAX_LABEL_CHARS)


def refuse_ends_without_repeat(request: Request | Reschedule) -> None:
    """Refuse an end of a task that does not recur."""
    given = ["until"] if request.until is not None else []
    given += ["max_runs"] if request.max_runs not in {None, 1} else []  # what does not recur runs once
    problems = ProblemCollector()
    for name in given:
        without = "until=null or " if name == "until" and isinstance(request, Request) else ""
        problems.of(_refuse_end, name, without)
    if problems:
        raise problems.error()


def _refuse_end(name: str, without: str) -> None:
    problem, accepted = "only a recurring task has an end", "no end, or repeat in the same call"
    raise InvalidArgument(name, problem, accepted=accepted, example=f"{without}repeat='daily'")


def check_max_runs(request: Request | Reschedule) -> None:
    """Refuse a number of runs that is out of range."""
    if request.max_runs is not None and not 1 <= request.max_runs <= MAX_SERIES_RUNS:
        raise InvalidArgument("max_runs", "out of range", accepted=f"1 to {MAX_SERIES_RUNS}", example="max_runs=10")


def no_zone() -> InvalidArgument:
    """Return the problem of a recurrence whose wall times have no zone."""
    return InvalidArgument(
        "timezone",
        "a recurrence needs a time zone and none is configured",
        accepted="an IANA name",
        example="timezone='America/Edmonton'",
    )


def page_size(limit: int, most: int = MAX_PAGE_ROWS) -> int:
    """Return how many items a page is to have. Raises InvalidArgument."""
    if not 1 <= limit <= most:
        raise InvalidArgument("limit", f"{limit} is out of range", accepted=f"1 to {most}", example="limit=20")
    return limit


def tenant_read(by: Principal, tenant: str | None) -> str | None:
    """Return the tenant whose history a caller asks for: the own one by default, None for all (`*`).

    Raises InvalidArgument for a tenant of which the caller may not read all.
    """
    wanted = None if tenant == ALL_TENANTS else tenant or by.tenant
    if wanted != by.tenant and not by.may_read_all_of(wanted):
        raise InvalidArgument("tenant", "only an operator may read other tenants", accepted="your own tenant, or none")
    return wanted


def tenant_changed(by: Principal, tenant: str | None) -> str:
    """Return the tenant whose rows a caller changes: the own one by default.

    Raises InvalidArgument for a tenant of which the caller may not change all.
    """
    wanted = tenant or by.tenant
    if wanted != by.tenant and not by.may_change_all_of(wanted):
        raise InvalidArgument("tenant", "only an operator may change other tenants", accepted="your own tenant")
    return wanted


def check_one_of_many(request: Request) -> None:
    """Refuse a chain or a dry run as one of several requests that are stored together. Raises InvalidArgument(s)."""
    problems = ProblemCollector()
    problems.add([problem for name, problem in _ALONE.items() if getattr(request, name)])
    if problems:
        raise problems.error()


_ALONE: Final = {
    "steps": InvalidArgument(
        "steps",
        "a chain cannot be part of a batch",
        accepted="requests without steps, and `submit` for each chain",
        example="scheduler.submit(Request('Report', steps=[{'name': 'fetch'}, {'name': 'send', 'after': ['fetch']}]))",
    ),
    "dry_run": InvalidArgument(
        "dry_run",
        "cannot be used with requests that are stored together",
        accepted="requests without dry_run, and `submit` to try one",
        example="scheduler.submit(Request('Call John', when='in 2 hours', dry_run=True))",
    ),
}


class ProblemCollector:
    """Collects the problems of all arguments, so that one error reports them."""

    def __init__(self) -> None:
        self._found: list[InvalidArgument] = []

    def of(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return the result of `read`, or None after keeping its problem."""
        try:
            return read(*args, **kwargs)
        except InvalidArgument as problem:
            self._found.append(problem)
        except InvalidArguments as several:
            self._found.extend(several.problems)
        return None

    def at(self, place: str, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return the result of `read`, or None after keeping its problem as that of the object at a place."""
        of_place = ProblemCollector()
        found = of_place.of(read, *args, **kwargs)
        self._found += [problem.at(place) for problem in of_place._found]
        return found

    @property
    def problems(self) -> Sequence[InvalidArgument]:
        """The problems that were found."""
        return tuple(self._found)

    def add(self, problems: Sequence[InvalidArgument]) -> None:
        """Keep problems that were found elsewhere."""
        self._found += problems

    def __bool__(self) -> bool:
        """Whether a problem was found."""
        return bool(self._found)

    def error(self, asked: object = None) -> InvalidArgument | InvalidArguments:
        """Return all problems as one error; of a call, with examples that can be sent back in it."""
        error = self._found[0] if len(self._found) == 1 else InvalidArguments(self._found)
        return corrected(error, asked)


def is_number(given: str | float | None) -> bool:
    """Whether a length of time is given as seconds; None counts as 0."""
    return not isinstance(given, str) or given.replace(".", "", 1).isdigit()  # a query has texts alone


def wait_seconds(given: str | float) -> float:
    """Return the seconds that a call waits at most. Raises InvalidArgument."""
    try:
        seconds = float(given) if is_number(given) else parse_exact(str(given)).total_seconds()
    except (Misread, Unknown):
        seconds = math.nan
    if not 0 <= seconds <= MAX_WAIT_S:
        raise InvalidArgument(
            "wait",
            "it is not a duration of at most 5 minutes",
            accepted="'30 s', '5 min', or seconds",
            example="wait='5 min'" if seconds > MAX_WAIT_S else WAIT_EXAMPLE,
        )
    return seconds
