"""Costs of a tenant, added up by group."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from duetime.scheduler.history.costs import CostGroup
from duetime.scheduler.principal import ALL_TENANTS, Scope
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.history import TENANT, read_by
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.rest.rows.costs import costs_json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.choices import Choice
from duetime.tools.definition import TIME
from pydantic import Field


class CostPayload(RestPayload):
    """The cost of one group: a date, a name, or the id of a task with its title; without a label the key is empty."""

    key: str
    title: str | None = None
    cost: str


class CostsPayload(RestPayload):
    """Costs from `since` on and before `until`: days in order, other groups the most costly first.

    Amounts are decimal numbers in `currency`, as text. `total` is of all runs; of the groups there are at most
    1,000 here. A run of a task with several labels counts for each.
    """

    schema_: Annotated[Literal["duetime.costs/1"], Field(alias="schema")] = "duetime.costs/1"
    group: CostGroup
    currency: str
    timezone: str
    since: str
    until: str
    total: str
    costs: tuple[CostPayload, ...]


def costs(call: RestCall) -> RestAnswer:
    """Return the costs of a tenant; by tenant, an operator who names none gets those of all."""
    group = CostGroup(call.values.get("group", CostGroup.DAY))
    if group is CostGroup.TENANT and call.by.may_read_all_of(None):
        call = replace(call, values={"tenant": ALL_TENANTS, **call.values})
    who = read_by(call)
    found = call.scheduler.reports.costs(group, since=call.values.get("since"), until=call.values.get("until"), **who)
    return RestAnswer(CostsPayload.model_validate(costs_json(found)))


OF_COSTS = (
    Operation(
        "list_costs",
        "GET",
        "/costs",
        "Add up what the runs of a tenant cost",
        costs,
        CostsPayload,
        Scope.ADMIN_READ,
        in_query=(
            Argument("group", Choice(tuple(CostGroup)), "By what; default day"),
            Argument("since", TIME, "From this time on; default: 30 days ago", "since='last monday'"),
            Argument("until", TIME, "Before this time; default: now", "until='yesterday'"),
            TENANT,
        ),
    ),
)
