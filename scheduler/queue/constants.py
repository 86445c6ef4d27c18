"""Numbers that both queues share, in memory and on Redis: each bounds the time of one call, or is a time itself."""

from __future__ import annotations

from duetime.scheduler.rules.limits.admission import Kind, Limits

MAX_CLASSES_PER_TAKE = 128
"""Classes that one take looks at. The next take goes on where it ended."""

MAX_SIZES_PER_WAKE = 32
"""Sizes of which one release wakes the best class: the largest that fit."""

MAX_TURNS_REFRESHED = 256
"""Tenants that were served since they came to a place which one look for the next turn puts behind the others."""

MAX_COUNTED_AHEAD = 10_000
"""Runs ahead of one that are counted to explain it. Nothing is handed out while they are counted."""

MAX_PROMOTED_PER_TAKE = 256
"""Delayed runs that one take makes ready."""

MAX_TIMERS_PER_TAKE = 16
"""Pool timers that one take runs."""

MAX_OVERDUE_PER_TAKE = 16
"""Parked runs that one take looks at again because they are overdue now."""

MAX_LEASES_PER_REAP = 100
"""Leases that one reap ends."""

MAX_HOLDERS_SHOWN = 10
"""Holders of a pool that an explanation names."""

CALM_AFTER_MS = 5_000.0
"""Milliseconds without any call after which reaping pauses: nobody could renew a lease."""

CALM_PERIOD_MS = 30_000.0
"""Milliseconds for which reaping pauses: the length of a lease."""

REBUILD_TURN_MS = 30_000.0
"""Milliseconds for which one process may rebuild a queue before another may try."""

DEFAULT_LIMITS = {"key:*": Limits(Kind.SLOTS, 1)}
"""Limits of pools that nobody declared: one run at a time for each concurrency key."""

MAX_PREEMPTORS = 16
"""Runs of one class, and classes of one tier, that are looked at for a worker that may make room."""

PREEMPTOR_HOLD_MS = 5000.0
"""Milliseconds for which one worker alone makes room for a run; if nothing came of it, another may."""

THREADS_KNOWN_MS = 10_000.0
"""Milliseconds for which the threads of a worker are known after it last reported them."""
