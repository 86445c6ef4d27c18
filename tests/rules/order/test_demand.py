"""A request's demand of order and admission: tier, deadline, estimate and needs, understood or refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.intake.needs import MAX_POOLS, merge_needs
from duetime.scheduler.intake.planner import Plan, Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.request import Request, ScheduleArguments
from duetime.scheduler.rules.estimates import Estimate
from duetime.scheduler.rules.limits.pool import Pool, PoolKind
from duetime.scheduler.rules.limits.pool_spec import read_pool
from duetime.scheduler.task import DeadlineType, Penalty, Tier
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 21, 23, 0, tzinfo=UTC)
"""A Saturday, 16:00 in Denver, where nine the next morning is at 16:00 UTC."""
TOMORROW_9 = datetime(2026, 11, 22, 16, 0, tzinfo=UTC)
POOLS: Mapping[str, Pool] = {
    "gpu": Pool("gpu", capacity=4, headroom=0.5),
    "openai": Pool("openai", PoolKind.RATE, 50, burst=5),
    "key:*": Pool("key:*"),
}


@handler("render", needs={"gpu": 1, "openai": 2}, estimate=120)
def render(_ctx: Context) -> Done:
    return Done()


INTAKE_HANDLERS = Handlers([*Handlers.load(entry_points=False).values(), render])
INTAKE = Planner(INTAKE_HANDLERS, "America/Denver", pools=lambda: POOLS)


def planned(planner: Planner = INTAKE, /, **arguments: object) -> Plan:
    given_: ScheduleArguments = {"when": "tomorrow 9am", **arguments}  # type: ignore[typeddict-item]  # typed by name
    return planner.plan(Request.of("Call John", given_), LOCAL, NOW)


def refused(planner: Planner = INTAKE, /, **arguments: object) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        planned(planner, **arguments)
    return caught.value


# --- tier ----------------------------------------------------------------------------------------------------------


def test_a_task_is_normal_unless_it_says_otherwise() -> None:
    assert planned().task.priority is Tier.NORMAL
    assert planned(priority=" HIGH ").task.priority is Tier.HIGH
    assert planned(priority=Tier.BACKGROUND).task.priority is Tier.BACKGROUND


def test_a_tier_that_is_none_is_refused_with_those_that_are() -> None:
    problem = refused(priority="hihg")

    assert problem.accepted == "critical, high, normal, low, background"
    assert problem.example == "priority='high'"


# --- deadlines -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deadline", "at"),
    [
        ("2 hours", TOMORROW_9 + timedelta(hours=2)),
        ("within 90 min", TOMORROW_9 + timedelta(minutes=90)),
        ("PT45S", TOMORROW_9 + timedelta(seconds=45)),
        (timedelta(hours=1), TOMORROW_9 + timedelta(hours=1)),
    ],
)
def test_a_bare_duration_counts_from_when_the_run_is_due(deadline: object, at: datetime) -> None:
    plan = planned(deadline=deadline)

    assert plan.run.deadline == at
    assert plan.task.deadline_after == at - TOMORROW_9


@pytest.mark.parametrize(
    ("deadline", "at"),
    [
        ("tomorrow noon", "2026-11-22T12:00-07:00"),
        ("by tomorrow 5pm", "2026-11-22T17:00-07:00"),
        ("2026-11-24T17:00", "2026-11-24T17:00-07:00"),
        ("in 2 days", "2026-11-23T16:00-07:00"),
        (datetime(2026, 11, 24, 17), "2026-11-24T17:00-07:00"),  # noqa: DTZ001 - a wall time of the task's zone
        (datetime(2026, 11, 24, 17, tzinfo=UTC), "2026-11-24T17:00+00:00"),
    ],
)
def test_every_other_deadline_is_an_instant_in_the_zone_of_the_task(deadline: object, at: str) -> None:
    plan = planned(deadline=deadline)

    assert plan.run.deadline == datetime.fromisoformat(at)
    assert plan.task.deadline_after is None


@pytest.mark.parametrize("deadline", ["17:00", "at 5pm", "by 17:00"])
def test_a_time_of_day_alone_is_the_first_one_after_the_run_is_due(deadline: str) -> None:
    plan = planned(deadline=deadline)

    assert plan.run.deadline == datetime.fromisoformat("2026-11-22T17:00-07:00")
    assert plan.warnings == ("deadline: no date given: the next 17:00 is Sun 22 Nov 2026",)


@pytest.mark.parametrize(
    ("due", "deadline", "at"),
    [
        ("08:15", "1:45", "08:45"),  # 01:15 for the second time
        ("08:15", "before 2:00", "09:00"),
        ("07:15", "1:45", "07:45"),
        ("07:15", "by 1:10", "08:10"),
        ("08:15", "1:10", "1 08:10"),
    ],
)
def test_a_time_of_day_in_the_hour_that_clocks_repeat_is_the_next_one_after_the_run_is_due(
    due: str, deadline: str, at: str
) -> None:
    day, _, clock = at.rpartition(" ")
    plan = planned(when=f"2027-11-07T{due}Z", deadline=deadline)
    expected = datetime.fromisoformat(f"2027-11-07T{clock}Z") + timedelta(days=int(day or 0))
    assert plan.run.deadline == expected
    is_second = at in {"08:45", "08:10"}
    assert is_second == ("the second" in " ".join(plan.warnings))


@pytest.mark.parametrize("deadline", ["by tomorrow", "2026-11-22"])
def test_a_date_alone_is_the_end_of_that_day(deadline: str) -> None:
    plan = planned(deadline=deadline)

    assert plan.run.deadline == datetime.fromisoformat("2026-11-22T23:59:59-07:00")
    assert plan.warnings == ("deadline: no time given: the end of that day",)


@pytest.mark.parametrize(
    ("word", "kind", "penalty"),
    [
        (None, DeadlineType.SOFT, Penalty.NONE),
        ("hard", DeadlineType.HARD, Penalty.NONE),
        ("soft", DeadlineType.SOFT, Penalty.NONE),
        ("Soft-Linear", DeadlineType.SOFT, Penalty.LINEAR),
        ("soft_step", DeadlineType.SOFT, Penalty.STEP),
        ("soft linear", DeadlineType.SOFT, Penalty.LINEAR),
    ],
)
def test_one_word_says_the_kind_of_a_deadline_and_its_penalty(
    word: str | None, kind: DeadlineType, penalty: Penalty
) -> None:
    task = planned(deadline="2 hours", deadline_type=word).task
    assert (task.deadline_type, task.penalty) == (kind, penalty)


@pytest.mark.parametrize(("wrong", "nearest"), [("linear", "soft-linear"), ("step", "soft-step"), ("strict", "soft")])
def test_a_wrong_type_of_a_deadline_is_never_answered_with_one_that_drops_the_run(wrong: str, nearest: str) -> None:
    assert refused(deadline="2 hours", deadline_type=wrong).example == f"deadline_type={nearest!r}"


def test_a_type_without_a_deadline_is_refused_with_one_that_has_it() -> None:
    problem = refused(deadline_type="hard")

    assert problem.argument == "deadline_type"
    assert problem.example == "deadline='2 hours', deadline_type='hard'"


@pytest.mark.parametrize(
    ("deadline", "example"), [("tomorrow 17:00", "8 h"), ("tomorrow 9:30", "30 min"), ("9am", "2 hours")]
)
def test_a_recurring_task_has_no_instant_as_its_deadline(deadline: str, example: str) -> None:
    problem = refused(when=None, repeat="every day at 9:00", deadline=deadline)

    assert problem.problem == "a recurring task has a deadline for each of its runs, not one instant for all"
    assert problem.example == f"deadline={example!r}"
    assert planned(when=None, repeat="every day at 9:00", deadline=example).task.deadline_after is not None


@pytest.mark.parametrize(
    ("repeat", "deadline", "after"),
    [("every day at 9:00", "17:00", 8), ("every weekday at 9", "by 11:00", 2), ("daily at 23:00", "before 5:00", 6)],
)
def test_a_time_of_day_is_the_deadline_of_each_run_at_one_other_time_of_day(
    repeat: str, deadline: str, after: int
) -> None:
    plan = planned(when=None, repeat=repeat, deadline=deadline)

    assert plan.task.deadline_after == timedelta(hours=after)
    assert f"deadline: {deadline} read as {after} h after each run is due" in plan.warnings


@pytest.mark.parametrize(
    ("repeat", "deadline", "example"),
    [
        ("daily at 9 and 17", "18:00", "1 h"),
        ("daily at 9 and 17", "by 11:00", "2 h"),
        ("every 30 minutes from 9 to 10", "10:45", "45 min"),
    ],
)
def test_a_time_of_day_is_no_deadline_of_runs_at_several_times_of_day_and_the_example_counts_from_the_last(
    repeat: str, deadline: str, example: str
) -> None:
    problem = refused(when=None, repeat=repeat, deadline=deadline)
    assert problem.problem.startswith("a recurring task has a deadline for")
    assert problem.example == f"deadline={example!r}"


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_a_deadline_before_the_run_is_due_is_refused(kind: str) -> None:
    problem = refused(deadline="today 20:00", deadline_type=kind)

    assert problem.problem == ("Sat 21 Nov 2026 20:00 is before the run is due, Sun 22 Nov 2026 09:00 America/Denver")
    assert planned(deadline=example_of(problem), deadline_type=kind).warnings == ()


def test_a_deadline_before_a_run_in_the_hour_that_clocks_repeat_is_refused_with_one_after_it() -> None:
    second = datetime(2027, 11, 7, 8, 15, tzinfo=UTC)  # 01:15 for the second time
    problem = refused(when=second, deadline="2027-11-07T01:45", deadline_type="hard")
    assert problem.problem == (
        "Sun 7 Nov 2027 01:45, the first 01:45 of that day (clocks go back) is before the run is due, "
        "Sun 7 Nov 2027 01:15, the second 01:15 of that day (clocks go back) America/Denver"
    )
    assert planned(when=second, deadline=example_of(problem), deadline_type="hard").warnings == ()


@pytest.mark.parametrize(
    ("deadline", "left"), [("tomorrow 9:00", "0 s"), ("1 s", "1 s"), ("tomorrow 9:02", "2 min"), ("5 min", "5 min")]
)
def test_a_hard_deadline_that_cannot_be_met_is_refused_with_one_that_can(deadline: str, left: str) -> None:
    problem = refused(action="render", deadline=deadline, deadline_type="hard", estimate="5 min")

    due = "Sun 22 Nov 2026 09:00 America/Denver"
    assert problem.problem == f"it leaves {left} after the run is due ({due}), and the run takes about 5 min"
    plan = planned(action="render", deadline=example_of(problem), deadline_type="hard", estimate="5 min")
    assert plan.run.drop_at is not None
    assert plan.run.drop_at > plan.run.scheduled_for


def test_an_estimate_is_said_in_whole_seconds() -> None:
    problem = refused(action="render", deadline="0.5 s", deadline_type="hard", estimate=0.91)

    assert problem.problem.endswith("and the run takes about 1 s")
    assert problem.accepted == "a time that leaves more than 1 s from when the run is due"


def test_a_soft_deadline_that_cannot_be_met_is_warned_of() -> None:
    plan = planned(action="render", deadline="2 min", estimate="5 min")

    assert plan.warnings == (
        "the deadline Sun 22 Nov 2026 09:02 cannot be met: it is due Sun 22 Nov 2026 09:00 and takes about 5 min",
    )


@pytest.mark.parametrize(
    "deadline", ["soonish", "soon", "30", "5 minutes ago", "2 months", "yesterday", "0 min", "400 days", timedelta(0)]
)
def test_a_wrong_deadline_is_refused_by_its_own_name(deadline: object) -> None:
    problem = refused(deadline=deadline)
    assert problem.argument == "deadline"
    assert planned(deadline=example_of(problem)).run.deadline is not None


def example_of(problem: InvalidArgument) -> str:
    return problem.example.removeprefix("deadline='").removesuffix("'")


# --- estimates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimate", ["5 min", "PT5M", "300", 300, 300.0, timedelta(minutes=5)])
def test_an_estimate_is_a_duration_or_seconds(estimate: object) -> None:
    assert planned(action="render", estimate=estimate).task.estimate == timedelta(minutes=5)


@pytest.mark.parametrize("estimate", ["long", "0 s", -1, float("nan"), float("inf"), "8 days", "9" * 30, "1e9", 10**30])
def test_a_wrong_estimate_is_refused(estimate: object) -> None:
    assert refused(estimate=estimate).argument == "estimate"


def test_the_time_to_look_at_a_run_is_its_deadline_less_what_it_takes_in_half_of_all_cases() -> None:
    learned = replace(INTAKE, estimates=lambda *_: Estimate(p50=timedelta(minutes=3), p90=timedelta(minutes=9)))

    def lead(planner: Planner, **arguments: object) -> timedelta:
        run = planned(planner, action="render", deadline="1 hour", **arguments).run
        assert run.deadline is not None
        assert run.drop_at is not None
        return run.deadline - run.drop_at

    assert lead(INTAKE, estimate="5 min") == timedelta(minutes=5)
    assert lead(INTAKE) == timedelta(minutes=2)  # as its handler declares
    assert lead(learned) == timedelta(minutes=3)
    assert lead(learned, estimate="5 min") == timedelta(minutes=5)


def test_an_estimate_over_the_time_limit_is_warned_of() -> None:
    assert planned(estimate="5 min").warnings == (
        "estimate: reminder is stopped after 30 s, before it can take so long",
    )


# --- needs ---------------------------------------------------------------------------------------------------------


def test_needs_lie_over_those_that_the_handler_declares() -> None:
    assert planned(action="render").task.needs == {"gpu": 1, "openai": 2}
    assert planned(action="render", needs={"gpu": 2, "key:a": 1}).task.needs == {"gpu": 2, "openai": 2, "key:a": 1}


def test_an_unknown_pool_is_refused_with_the_pools_and_the_nearest_of_them() -> None:
    problem = refused(needs={"gpus": 3, "key:a": 1})

    assert problem.problem == "there is no pool 'gpus'"
    assert problem.accepted == (
        "gpu (4 slots, up to 2 for normal), openai (50 a minute, 5 at once), key:<anything> (1 slot each)"
    )
    assert problem.example == "needs={'key:a': 1, 'gpu': 2}"


def test_more_than_a_pool_can_ever_give_is_refused_with_what_it_can() -> None:
    problem = refused(needs={"openai": 6})

    assert problem.problem == "openai can never give 6 to a run of priority normal, 5 at most"
    assert problem.example == "needs={'openai': 5}"


def test_a_pool_that_an_operator_has_closed_holds_new_tasks_too() -> None:
    pools = {"gpu": Pool("gpu", capacity=0)}
    planner = Planner(INTAKE_HANDLERS, "America/Denver", pools=lambda: pools)
    assert planned(planner, needs={"gpu": 1}).task.needs == {"gpu": 1}


def test_units_kept_for_higher_tiers_are_refused_to_others() -> None:
    assert refused(needs={"gpu": 3}).example == "needs={'gpu': 2}"
    assert planned(needs={"gpu": 4}, priority="high").task.needs == {"gpu": 4}


@pytest.mark.parametrize("name", ["tenant:acme", "tenant:local", "key:"])
def test_the_quota_of_a_tenant_and_a_key_without_a_name_cannot_be_asked_for(name: str) -> None:
    with pytest.raises(InvalidArgument, match="needs: "):
        planned(needs={name: 1})


@pytest.mark.parametrize(
    ("tenant", "pool"),
    [
        ("acme", "key:acme/customer-42"),
        ("Acme, Inc.", "key:Acme%2C%20Inc./customer-42"),
        ("a/b", "key:a%2Fb/customer-42"),
    ],
)
def test_a_key_is_of_the_tenant_who_names_it_however_often_it_is_read_and_given_again(tenant: str, pool: str) -> None:
    def needs(*names: str) -> dict[str, int]:
        return merge_needs({"key:report": 1}, dict.fromkeys(names, 1), tenant=tenant)

    assert needs("key:customer-42") == needs(pool) == {"key:report": 1, pool: 1}
    assert needs("gpu", "key:report") == {"gpu": 1, "key:report": 1}, "what a handler declares is everybody's"
    with pytest.raises(InvalidArgument, match="is not a pool name"):
        needs(pool.removesuffix("customer-42"))


@pytest.mark.parametrize("name", ["key:acme/customer-42", "key:team/42", "key:local/acme/customer-42"])
def test_the_local_user_cannot_name_another_tenants_key(name: str) -> None:
    [pool] = merge_needs({}, {name: 1})
    assert pool == f"key:local/{name.removeprefix('key:').removeprefix('local/')}"
    assert merge_needs({}, {pool: 1}) == {pool: 1}


def test_two_tenants_can_use_the_same_key_at_the_same_time() -> None:
    asked = Request("Call", when="tomorrow 9am", needs={"key:customer-42": 1})
    pools = [INTAKE.plan(asked, Principal(tenant, "ann"), NOW).task.needs.keys() for tenant in ("acme", "rival")]
    assert pools[0].isdisjoint(pools[1])
    assert planned(needs={"key:customer-42": 1}).task.needs == {"key:customer-42": 1}, "the local user's have no prefix"


def test_keys_need_no_declaration() -> None:
    bare = replace(INTAKE, pools=dict)

    assert planned(bare, needs={"key:customer-42": 1}).task.needs == {"key:customer-42": 1}
    assert "1 at most" in refused(bare, needs={"key:customer-42": 2}).problem
    assert "none is declared" in refused(bare, needs={"gpu": 1}).problem


@pytest.mark.parametrize(
    "needs", [{"gpu": 0}, {"gpu": -1}, {"gpu": 1.5}, {"gpu": True}, {"gpu": "1"}, {"": 1}, {"a b": 1}, {"x" * 101: 1}]
)
def test_odd_amounts_and_names_are_refused(needs: dict[str, object]) -> None:
    assert refused(needs=needs).argument == "needs"


def test_only_so_many_pools_fit_a_task() -> None:
    assert refused(needs={f"key:{n}": 1 for n in range(MAX_POOLS + 1)}).argument == "needs"


# --- all together --------------------------------------------------------------------------------------------------


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InvalidArguments) as caught:
        planned(when="soon", priority="?", deadline="?", deadline_type="?", estimate="?", needs={"?": 1}, labels=[""])

    assert [problem.argument for problem in caught.value.problems] == [
        *("when", "priority", "deadline", "deadline_type", "estimate", "needs", "labels")
    ]


def test_a_request_is_the_same_only_if_it_asks_for_the_same() -> None:
    plain = Request("Call John", when="tomorrow 9am")

    assert "priority" not in plain.content()
    for name, value in {"priority": "high", "deadline": "1 h", "estimate": 5, "needs": {"gpu": 1}}.items():
        assert replace(plain, **{name: value}).content() != plain.content()  # type: ignore[arg-type]  # by name


WHENS = st.sampled_from(["in 5 min", "tomorrow 9am", "2026-12-24T18:00", timedelta(hours=3)])
DEADLINES = st.sampled_from(
    ["17:00", "noon", "2 min", "within 3 hours", "tomorrow", "in 3 hours", "end of month", "today 23:00", "2027-01-01"]
)
KINDS = st.sampled_from([None, "hard", "soft", "soft-linear", "soft-step"])
ESTIMATES = st.none() | st.integers(1, 100_000)
REPEATS = st.sampled_from([None, "every day at 9:00", "every 15 minutes"])


@given(when=WHENS, deadline=DEADLINES, kind=KINDS, estimate=ESTIMATES, repeat=REPEATS)
def test_an_accepted_deadline_lies_after_the_run_is_due_and_a_hard_one_can_be_met(
    when: object, deadline: str, kind: str | None, estimate: int | None, repeat: str | None
) -> None:
    arguments = {"when": when, "repeat": repeat, "deadline": deadline, "deadline_type": kind, "estimate": estimate}
    try:
        plan = planned(**arguments)
    except InvalidArgument:
        problem = refused(**arguments)
        assert problem.argument == "deadline"
        assert problem.example
        return
    run = plan.run
    assert run.deadline is not None
    assert run.drop_at is not None
    assert run.scheduled_for <= run.deadline
    assert run.drop_at < run.deadline
    assert repeat is None or plan.task.deadline_after is not None
    in_time = run.drop_at > run.scheduled_for
    assert in_time or (
        plan.task.deadline_type is DeadlineType.SOFT and any("cannot be met" in w for w in plan.warnings)
    )


@pytest.mark.parametrize("needs", [None, {"key:customer-42": 1}, {"gpu": 2}])
def test_an_action_whose_own_pool_is_missing_is_refused_with_what_an_administrator_does(
    needs: Mapping[str, int] | None,
) -> None:
    pools: dict[str, Pool] = {"openai": POOLS["openai"]}
    planner = Planner(INTAKE_HANDLERS, "America/Denver", pools=lambda: pools)
    error = refused(planner, action="render", needs=needs)
    units = (needs or {}).get("gpu", 1)
    assert (error.argument, error.problem) == (
        "action",
        "'render' needs the pool 'gpu', and there is no pool of this name",
    )
    shown = error.example.removeprefix("duetime pools set gpu ").strip("'")
    pools["gpu"] = read_pool("gpu", json.loads(shown))
    assert planned(planner, action="render", needs=needs).task.needs["gpu"] == units
