"""The undo of a change of many: the data of its button, and what pressing that does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from duetime.scheduler.calls.bulk_change import Became
from duetime.scheduler.errors import Refused
from duetime.server.admin.answers import MAX_PROBLEMS_SHOWN, Moved
from duetime.server.admin.page_request import Visit
from duetime.server.admin.site import path_of

_TOKEN_CHARS: Final = 23
MAX_UNDO_CHARS: Final = 1_500
"""Longest undo data in a sealed cookie, which has to stay below the 4,096 bytes that browsers keep."""

NO_UNDO: Final = "It has no undo: it is of too many tenants or time zones at once."


def undo_of(calls: Iterable[str]) -> tuple[str, ...]:
    """Return the undo data of calls, the token and the tenant of each; empty where it does not fit into a cookie."""
    undo = tuple(calls)
    return undo if sum(map(len, undo)) <= MAX_UNDO_CHARS else ()


def why_no_undo(calls: Iterable[str]) -> str:
    """Return the sentence about calls whose undo does not fit into a cookie, empty for any others."""
    undo = tuple(calls)
    return NO_UNDO if undo and not undo_of(undo) else ""


def is_kept(tenants: Iterable[str]) -> bool:
    """Whether the undo of calls in these tenants, one for each call, will fit into a cookie."""
    return bool(undo_of(f"{'':{_TOKEN_CHARS}} {tenant}" for tenant in tenants))


def take_back(visit: Visit) -> Moved:
    """Undo what a form changed, call by call; say what was taken back, and why the rest stays."""
    changed, problems = Counter[str](), list[str]()
    for each in visit.form.getlist("undo"):
        token, _, tenant = each.partition(" ")
        try:
            done = visit.scheduler.bulk.change("undo", undo=token, tenant=tenant or None, by=visit.principal)
        except Refused as refused:
            problems.append(str(refused).removeprefix("undo: "))
            continue
        changed[_what(visit, token, tenant)] += done.counts[Became.CHANGED]
        problems += [one.why for one in done.outcomes if one.became is Became.REFUSED and one.why]
    return Moved(path_of(visit.form, "after"), " ".join([_taken_back(changed), *_stay(problems)]))


def _what(visit: Visit, token: str, tenant: str) -> str:
    """Return the name of the change that a token takes back."""
    found = visit.store.batches.stored(tenant or visit.principal.tenant, token)
    return found[0].verb.value if found else "change"


def _taken_back(changed: Counter[str]) -> str:
    done = [f"the {name} of {count:,} {'task' if count == 1 else 'tasks'}" for name, count in changed.items() if count]
    return f"Taken back: {', '.join(done)}." if done else "Nothing was taken back."


def _stay(problems: list[str]) -> list[str]:
    first = [each.removeprefix("nothing was taken back: ") for each in problems[:MAX_PROBLEMS_SHOWN]]
    more = len(problems) - len(first)
    return [*first, *([f"And {more:,} more."] if more else [])]
