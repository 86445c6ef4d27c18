"""Recorded decisions of the queue: why a run went first, or was stepped over."""

from __future__ import annotations

from typing import Annotated, Literal

from duetime.scheduler.foresight.decision_text import lines, outcome, reason
from duetime.scheduler.principal import Scope
from duetime.scheduler.rules.policies.decision import Contender, PoolSeen
from duetime.scheduler.rules.policies.decision_record import TIERS, Decision
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.task import Tier
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.history import CURSOR, LIMIT, TENANT, read_by
from duetime.server.rest.resources.payloads import RestPayload
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Text
from pydantic import Field


class ContenderPayload(RestPayload):
    """The best run of a tier: `late_seconds` past its key, below 0 before it; what its tier is owed."""

    tier: Tier
    run_id: str
    tenant: str
    key: float
    late_seconds: float
    owed: float
    room: float


class PoolSeenPayload(RestPayload):
    """A pool that the run needs, up to the first that it lacked, and why it did."""

    pool: str
    units: float
    free: float | None = None
    lacked: str | None = None


class DecisionPayload(RestPayload):
    """A look of a worker at a run: it started, or lacked a pool. `why` is the same in words.

    `contenders` are the best runs of the tiers; of other tenants only for operators. `idle` threads were left.
    """

    schema_: Annotated[Literal["duetime.decision/1"], Field(alias="schema")] = "duetime.decision/1"
    id: str
    at: str
    tenant: str
    task_id: str
    run_id: str
    worker: str
    tier: Tier
    key: float
    outcome: str
    reason: str
    policy: int
    idle: int
    headroom: tuple[int, ...]
    contenders: tuple[ContenderPayload, ...]
    pools: tuple[PoolSeenPayload, ...]
    why: tuple[str, ...]


class DecisionsPayload(RestPayload):
    """One page of decisions, newest first."""

    schema_: Annotated[Literal["duetime.decisions/1"], Field(alias="schema")] = "duetime.decisions/1"
    decisions: tuple[DecisionPayload, ...]
    cursor: str | None = None


def decisions(call: RestCall) -> RestAnswer:
    """Return a page of decisions."""
    page = call.scheduler.decisions.page(
        task_id=call.values.get("task_id"),
        limit=call.values.get("limit", 50),
        cursor=call.values.get("cursor"),
        **read_by(call),
    )
    payload = DecisionsPayload(decisions=tuple(map(decision_payload, page.decisions)), cursor=page.cursor)
    return RestAnswer(payload, cursor=page.cursor)


def decision(call: RestCall) -> RestAnswer:
    """Return one decision."""
    return RestAnswer(decision_payload(call.scheduler.decisions.get(call.values["decision_id"], **read_by(call))))


def decision_payload(found: Decision) -> DecisionPayload:
    """Return a decision with its reasons in words."""
    look = found.look
    return DecisionPayload(
        id=found.id,
        at=utc(found.at),
        tenant=found.tenant,
        task_id=found.task_id,
        run_id=found.run_id,
        worker=found.worker,
        tier=found.tier,
        key=look.run.key,
        outcome=outcome(found),
        reason=reason(look),
        policy=look.policy,
        idle=look.idle,
        headroom=look.headroom,
        contenders=tuple(_contender(found, tier, head) for tier, head in zip(TIERS, look.heads, strict=True) if head),
        pools=tuple(map(_pool, look.pools)),
        why=tuple(lines(found)),
    )


def _contender(found: Decision, tier: Tier, head: Contender) -> ContenderPayload:
    look, rank = found.look, tier.rank - 1
    late = (look.at - head.key) / 1000
    return ContenderPayload(
        tier=tier,
        run_id=head.run_id,
        tenant=head.tenant,
        key=head.key,
        late_seconds=late,
        owed=look.owed[rank],
        room=look.room[rank],
    )


def _pool(pool: PoolSeen) -> PoolSeenPayload:
    return PoolSeenPayload(pool=pool.pool, units=pool.units, free=pool.free, lacked=pool.lacked or None)


OF_DECISIONS = (
    Operation(
        "list_decisions",
        "GET",
        "/decisions",
        "List recorded decisions of the queue on the runs of a tenant, newest first",
        decisions,
        DecisionsPayload,
        Scope.ADMIN_READ,
        in_query=(Argument("task_id", Text(40), "Only on runs of this task"), TENANT, LIMIT, CURSOR),
        paged=True,
    ),
    Operation(
        "get_decision",
        "GET",
        "/decisions/{decision_id}",
        "Show why the queue chose a run, or stepped over it",
        decision,
        DecisionPayload,
        Scope.ADMIN_READ,
        in_path=(Argument("decision_id", Text(40), "A decision, as the list shows it", required=True),),
        in_query=(TENANT,),
    ),
)
