"""Break the Lua scripts in a copy, one defect at a time, and show that the random walks or the contract go red.

Run from the top: `python tests/contracts/queue/mutations.py [FILE ..]`, for all defects or those of some scripts. Exits
1 when a mutation survives. Each run starts a server of its own, unless `DUETIME_TEST_REDIS_URL` names one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SUITE = tuple(
    f"tests/contracts/queue/test_{name}.py"
    for name in ("random_walk", "preemption_walk", "redis_queue", "redis_scripts")
)
WALKS = {"WALK_SEEDS": "3", "WALK_STEPS": "8000"}


@dataclass(frozen=True)
class Mutation:
    what: str
    file: str
    before: str
    after: str


MUTATIONS = (
    Mutation("an overdue run has no hold", "holds", "if not first or first.key >= WALL or", "if true or"),
    Mutation("a run that is not overdue has a hold", "holds", "if key >= WALL then return false end", ""),
    Mutation("a run has a hold on units that it can have", "holds", "units_of(class, p.name) > left and", ""),
    Mutation(
        "a hold stays while the pool is too small",
        "holds",
        "units_of(class, p.name) > available_in_time(",
        "0 > (",
    ),
    Mutation("a line has no first head when that leaves", "holds", "if first[1] then call(", "if false then call("),
    Mutation("a hold is looked for once", "holds", "found.left ~= left or found.most_left ~= most_left or", ""),
    Mutation("a hold binds every tier", "holds", "  return tier < other\n", "  return true\n"),
    Mutation(
        "tiers earn nothing at a pool", "take", "HOLDS.count_start(pool(need.pool), class.tier)", "pool(need.pool)"
    ),
    Mutation("a start uses up nothing that was earned", "holds", "(each == tier and 1 or 0)", "0"),
    Mutation("tiers that are not late earn starts", "holds", "first and first.key < WALL and", "first and"),
    Mutation(
        "nothing is kept in the pools before", "shortages", "      HOLDS.hold_part(other", "      local _ = (other"
    ),
    Mutation("what is kept is kept again at once", "holds", "NOW < p.state.hold_until + length then", "false then"),
    Mutation("a new key ends a hold", "rescore", "drop_holds(run, key < WALL)", "drop_holds(run)"),
    Mutation("what is kept is kept for ever", "holds", "NOW < p.state.hold_until and", "p.state.hold ~= '' and"),
    Mutation("what is kept binds more urgent tiers", "holds", "run.class.tier > class.tier or", ""),
    Mutation("nothing looks when a hold ends", "classes", "if NOW < ends then at =", "if false then at ="),
    Mutation("what is left over is kept as well", "holds", "units > free(p, run.class.tier) and", ""),
    Mutation("a hold outlives the run it is for", "holds", "if had then set_hold", "if false then set_hold"),
    Mutation(
        "what is held back for another is woken for nothing",
        "classes",
        "  if not even_if_held then\n",
        "  if true then\n",
    ),
    Mutation(
        "a run keeps its holds while no release can help it",
        "shortages",
        "then return units > in_reach(p, tier) end",
        "then return false end",
    ),
    Mutation(
        "a release wakes nobody",
        "finish",
        "    wake_all(run.class)\n    for _, name in ipairs(learned) do wake",
        "    for _, name in ipairs(learned) do wake",
    ),
    Mutation("a record has the balance after the look", "decisions", "number(S.owed[each])", "number(0)"),
    Mutation(
        "a record has only the heads that may start",
        "take",
        "if RECORD.looks then RECORD.heads",
        "if RECORD.looks and idle > 2 then RECORD.heads",
    ),
    Mutation(
        "a record has the units free for another tier", "decisions", "number(free(p, tier))", "number(free(p, 1))"
    ),
    Mutation("a release wakes one size", "classes", "from, 'LIMIT', 0, MAX_SIZES_PER_WAKE)", "from, 'LIMIT', 0, 1)"),
    Mutation(
        "a throttled bucket refills at full speed",
        "pools",
        "limits.refill * running(s.factor, passed))",
        "limits.refill * passed)",
    ),
    Mutation("any token ends a lease", "leases", "run.token == token and run or nil", "run or nil"),
    Mutation("debt ends with its window", "pools", "max(0, copy.spent - limits.capacity)", "0"),
    Mutation(
        "over-use leaves no debt in the bucket", "pools", "s.level + units - used)", "max(0, s.level + units - used))"
    ),
    Mutation("a window ends a slot too early", "start_log", "math.max(log[after - 1], at)", "log[after - 1]"),
    Mutation(
        "a start counts from its grant, not from when it began",
        "pools",
        "log_added(log, began, used",
        "log_added(log, granted, used",
    ),
    Mutation(
        "headroom is no part of the window",
        "pools",
        "limits.window_units - limits.window_units * kept",
        "limits.window_units",
    ),
    Mutation(
        "a window is forgotten when its limits change",
        "set_pool",
        "log_resized(s.log, limits.slides and limits.window or 0)",
        "{}",
    ),
    Mutation(
        "nobody looks again when a start leaves its window",
        "pools",
        "return left_at and max(at, left_at) or at",
        "return at",
    ),
    Mutation("tiers have no ceiling", "shares", "(not any_below or (is_late(head) and S.room[tier] >= 1))", "true"),
    Mutation("a turn is not noted", "take", "  count_turn(class, cursor.out_of_turn)\n", ""),
    Mutation("a new tenant goes before all others", "classes", "      enter_turns(run.class)\n", ""),
    Mutation("tenants take no turns", "take", "if not tenant or not has_others(tier, tenant) then", "if true then"),
    Mutation(
        "what is woken behind a pool goes by key alone",
        "classes",
        "if entry and entry ~= best then",
        "if false then",
    ),
    Mutation(
        "a hold binds a tenant whose turn it is",
        "holds",
        "return turn_of(class.tier, tenant) < turn_of(class.tier, other)",
        "return run.key < key",
    ),
    Mutation("a deadline never goes out of turn", "view", "not class.by_deadline or best.key < WALL", "true"),
    Mutation(
        "a deadline that has passed goes out of turn",
        "view",
        "not class.by_deadline or best.key < WALL",
        "not class.by_deadline",
    ),
    Mutation("a start out of turn is not noted", "turns", "  if out_of_turn then\n", "  if false then\n"),
    Mutation("a start in turn counts as one out of turn", "turns", "  if out_of_turn then\n", "  if true then\n"),
    Mutation(
        "a tenant goes out of turn as often as it likes",
        "turns",
        ", tenant) or 0)) > turn",
        ", tenant) or 0)) > math.huge",
    ),
    Mutation(
        "a tenant that may start nothing out of turn hides the deadlines of others",
        "runs",
        "last = heads[1] and MAX_BARRED_HEADS_PASSED or 0",
        "last = 0",
    ),
    Mutation(
        "what is woken behind a pool by key may start nothing out of turn",
        "classes",
        "first_by_key(place, entry and class_of_entry(entry), '*')",
        "first_by_key(place, nil, '*')",
    ),
    Mutation(
        "a start out of turn is remembered for ever",
        "turns",
        "  call('ZREMRANGEBYSCORE', P .. 'out_of_turn:' .. tier, '-inf', long_ago)\n",
        "",
    ),
    Mutation(
        "a record says that every head may go out of turn",
        "decisions",
        "if head.member == VIEW.barred then",
        "if false then",
    ),
    Mutation("shares act before anyone is late", "shares", "head ~= nil and head.key < WALL", "head ~= nil"),
    Mutation("tiers have no guaranteed share", "shares", "and S.owed[tier] >= 1 then", "and S.owed[tier] >= 9 then"),
    Mutation(
        "a half-open breaker lets in any number of probes", "pools", "then s.probe = id end", "then s.probe = '' end"
    ),
    Mutation("any answer decides about a half-open breaker", "feedback", "and not probed) then", "and false) then"),
    Mutation(
        "nobody is known as the probe when it ends", "finish", ".state.probe == run.id end", ".state.probe == '' end"
    ),
    Mutation(
        "a tripped breaker waits no longer each time", "feedback", "2 ^ min(s.trips, MAX_COOLDOWN_DOUBLINGS)", "1"
    ),
    Mutation("a pool is looked at once and never again", "take", "    set_timer_for_rest(p)\n", ""),
    Mutation(
        "no timer is set for a class that is parked",
        "shortages",
        "then set_timer(p.name, helped_at",
        "then local _ = (p.name == helped_at",
    ),
    Mutation("unused units of a rate help nobody sooner", "leases", "then set_timer_for_rest(p) end", "then end"),
    Mutation("headroom is kept from high as well", "pools", "if tier > HEADROOM_TIER_COUNT then", "if tier > 1 then"),
    Mutation(
        "equal keys go by id, whatever came first",
        "runs",
        "string.format('%017.3f', created)",
        "string.format('%017.3f', 0)",
    ),
    Mutation(
        "a new head does not unpark its class",
        "classes",
        "if key_now == key and member_now == member then return end",
        "if member then return end",
    ),
    Mutation(
        "a run that needs something else stays where it is",
        "put",
        "elseif run.class ~= entry.class then",
        "elseif false then",
    ),
    Mutation("a run that moves keeps its holds", "put", "  drop_holds(run)\n  place(", "  place("),
    Mutation("a run that is put again while it runs is lost", "leases", "if again then place(", "if false then place("),
    Mutation("what is given back counts as used", "give_back", "unused[need.pool] = 0", "unused[need.pool] = nil"),
    Mutation(
        "pools made on use are kept for good", "pools", "if not is_kept(p) or not is_idle(p) then", "if true then"
    ),
    Mutation("leases are reaped after a silence at once", "state", "S.calm = NOW + CALM_PERIOD_MS", "S.calm = NOW"),
    Mutation(
        "time goes back with the clock",
        "state",
        "  if now < S.now - MAX_CLOCK_STEP_MS then",
        "  if S.now > now then S.now = now elseif false then",
    ),
    Mutation(
        "time stands still until the clock is there again",
        "state",
        "  if now < S.now - MAX_CLOCK_STEP_MS then",
        "  if false then",
    ),
    Mutation(
        "a window ends each time that the clock shows its end",
        "pools",
        "at + (at <= S.shown and S.wall_lag_then or S.wall_lag)",
        "at + S.wall_lag",
    ),
    Mutation("hours do not follow the clock", "pools", "steps[i] + S.wall_lag,", "steps[i],"),
    Mutation("a worker takes whatever comes", "view", "head.known = not action or", "head.known = true or"),
    Mutation(
        "a head that comes first is overlooked", "classes", "then TOP[place] = head end", "then local _ = top end"
    ),
    Mutation(
        "a removed head is the first still",
        "classes",
        "  TOP[place_of(class.tier, lane)], TOP[-class.tier] = nil,",
        "  TOP[-class.tier] =",
    ),
    Mutation("a tier is looked at only while two wait", "view", "if S.ready[tier] == 0", "if S.ready[tier] <= 1"),
    Mutation(
        "a timer that a take sets is not in its hint",
        "pools",
        "  call('ZADD', P .. 'timers', 'LT', at, name)\n  FIRST.timers = nil\n",
        "  call('ZADD', P .. 'timers', 'LT', at, name)\n",
    ),
    Mutation("a promise binds nobody", "holds", "if promised then return promised ~= class end", ""),
    Mutation("a promised class is not woken", "classes", "  unpark_promised(p)\n", ""),
    Mutation("a promise outlives the start that it was for", "leases", "if p.state.promised == class.name", "if false"),
    Mutation("units on their way are requested again", "runs_to_preempt", " - released(p.name)", ""),
    Mutation("runs that are as urgent yield too", "runs_to_preempt", "if run.class.tier > tier", "if true"),
    Mutation("a hold counts though no worker serves it", "holds", "not is_unserved(", "not (nil and "),
    Mutation("a repeated take gets more runs", "take", "if last[1] == nonce then", "if last[1] == '' then"),
)


def copy_of_the_package(home: Path) -> Path:
    """Copy the code to where PYTHONPATH finds it first, and return the folder of the scripts."""
    leave = shutil.ignore_patterns("__pycache__", "duetime", "node_modules")
    shutil.copytree(ROOT / "server" / "duetime", home / "duetime", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("scheduler", "server", "tools", "widgets"):
        shutil.copytree(ROOT / folder, home / "duetime" / folder, ignore=leave)
    return home / "duetime" / "scheduler" / "queue" / "redis" / "lua"


def run_suite(home: Path) -> tuple[bool, str]:
    """Test a copy; return whether it passed, and where it did not: the step of a walk, or another test."""
    command = [sys.executable, "-m", "pytest", *SUITE, "-q", "-x", "-p", "no:cacheprovider"]
    env = {**os.environ, **WALKS, "PYTHONPATH": str(home)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 1}:
        raise RuntimeError(done.stdout + done.stderr)
    failed = re.search(r"seed \d+, step \d+|FAILED \S+", done.stdout)
    return done.returncode == 0, failed[0] if failed else "an error"


def survives(mutation: Mutation | None) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        scripts = copy_of_the_package(Path(folder))
        if mutation is not None:
            [script] = scripts.glob(f"*/{mutation.file}.lua")
            source = script.read_text()
            if source.count(mutation.before) != 1:
                raise RuntimeError(f"{script.name} has changed: {mutation.before!r} is not in it once")
            script.write_text(source.replace(mutation.before, mutation.after))
        passed, failed = run_suite(Path(folder))
    outcome = "passes" if passed else f"caught at {failed}"
    sys.stdout.write(f"{mutation.what if mutation else 'unchanged'}: {outcome}\n")
    sys.stdout.flush()
    return passed


def main() -> int:
    if not survives(None):
        return 1
    files = sys.argv[1:]
    survivors = [mutation for mutation in MUTATIONS if (not files or mutation.file in files) and survives(mutation)]
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main())
