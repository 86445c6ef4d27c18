"""Events of the history as JSON, alone and as a page."""

from __future__ import annotations

from duetime.scheduler.events import Event, EventPage
from duetime.scheduler.principal import ALL_TENANTS, LOCAL, Principal
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.task import Json
from duetime.scheduler.views import TaskView
from duetime.server.rest.rows.tasks import history_of
from duetime.widgets.formats.rows import present
from duetime.widgets.history import NO_STEPS, changes_of, step_of, steps_of
from duetime.widgets.payload import as_json


def event_json(event: Event, zone: str) -> dict[str, Json]:
    """Return an event."""
    changes: dict[str, Json] = {name: list(values) for name, values in changes_of(event, zone).items()}
    known: dict[str, Json] = {
        "task_id": event.task_id,
        "seq": event.seq,
        "run_id": event.run_id,
        "at": utc(event.at),
        "kind": event.kind.value,
        "actor": event.actor,
        "via": event.via,
        "reason": event.reason or None,
        "from": event.from_state.value if event.from_state else None,
        "to": event.to_state.value if event.to_state else None,
        "attempt": event.attempt,
        "changes": changes or None,
    }
    return present(known)


def events_json(
    scheduler: Scheduler,
    page: EventPage,
    view: TaskView | None,
    *,
    first: bool,
    tenant: str | None = None,
    by: Principal = LOCAL,
) -> dict[str, Json]:
    """Return a page of events, of one task if there is a `view` of it: in its zone, the `first` page with its attempts.

    Of a chain, events name their steps; of all tenants, their tenants.
    """
    titles = scheduler.tasks.titles([event.task_id for event in page.events], tenant=tenant, by=by)
    zone = (view.record.task.timezone if view else scheduler.zone) or "UTC"
    steps = steps_of(view) if view else NO_STEPS
    tried = history_of(scheduler, view, by=by).attempts if view and first else ()

    def row(event: Event) -> Json:
        named: dict[str, Json] = {"title": titles.get(event.task_id), "step": step_of(event, steps)}
        of_all = {"tenant": event.tenant if tenant == ALL_TENANTS else None}
        return present({**event_json(event, zone), **named, **of_all})

    found: dict[str, Json] = {
        "schema": "duetime.events/1",
        "timezone": zone,
        "attempts": [as_json(each) for each in tried] or None,
        "events": [row(event) for event in page.events],
        "cursor": page.cursor,
        "searched_to": utc(page.searched_to) if page.searched_to else None,
    }
    return present(found)
