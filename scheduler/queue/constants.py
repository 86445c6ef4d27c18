"""Limits and intervals that both queues share, in memory and on Redis; most of them bound the duration of one call."""

from __future__ import annotations

from duetime.scheduler.rules.limits.admission import Kind, Limits

MAX_CLASSES_PER_TAKE = 128
"""Classes that one take examines; the next take continues after them."""

MAX_LOOKS_RECORDED = 16
"""Looks of one take that its record has: the first ones."""

MAX_SIZES_PER_WAKE = 32
"""Sizes per release whose best class is woken: the largest that fit."""

MAX_TURNS_REFRESHED = 256
"""Tenants served since they entered a place that one search for the next turn moves to the back."""

MAX_BARRED_HEADS_PASSED = 32
"""Heads of tenants that may start nothing out of turn which one search for another deadline passes over."""

MAX_RUNS_COUNTED_AHEAD = 10_000
"""Runs ahead of a run that its explanation counts: the queue grants nothing while it counts."""

MAX_PROMOTED_PER_TAKE = 256
"""Delayed runs that one take makes ready."""

MAX_TIMERS_PER_TAKE = 16
"""Pool timers that one take fires."""

MAX_LEASES_PER_REAP = 100
"""Leases that one reap ends."""

MAX_HOLDERS_SHOWN = 10
"""Holders of a pool that an explanation names."""

HOLD_CHECK_INTERVAL_MS = 5_000.0
"""Milliseconds until a pool that a run holds is examined again: its workers may have ended."""

CALM_AFTER_MS = 5_000.0
"""Milliseconds without a call after which reaping pauses, because no worker could renew its leases."""

CALM_PERIOD_MS = 30_000.0
"""Milliseconds for which reaping pauses: the length of a lease, so that every live worker renews first."""

REBUILD_TURN_MS = 30_000.0
"""Milliseconds after which another process may take over an unfinished rebuild."""

MIN_DAMAGE_INTERVAL_MS = 10_000.0
"""Milliseconds between two rebuilds of a queue that is damaged, by all processes together."""

DAMAGE_KNOWN_MS = 86_400_000.0
"""Milliseconds for which the last damage is remembered."""

DEFAULT_LIMITS = {"key:*": Limits(Kind.SLOTS, 1)}
"""Limits of pools that nobody declared: one run at a time for each concurrency key."""

MAX_PREEMPTORS = 16
"""Runs of one class, and classes of one tier, that are examined for a preemption."""

PREEMPTOR_HOLD_MS = 5000.0
"""Milliseconds for which a run is assigned to one preempting worker; then another worker may preempt for it."""

PROMISE_MS = 5000.0
"""Milliseconds for which units that runs were requested to release are kept for the run that waits for them."""

WILLING_KNOWN_MS = 1000.0
"""Milliseconds for which a run counts as willing to yield, after the last report of its worker."""

MAX_WILLING_RUNS = 256
"""Willing runs that are examined for the units that they hold."""

THREADS_KNOWN_MS = 10_000.0
"""Milliseconds for which the thread report of a worker is valid."""
