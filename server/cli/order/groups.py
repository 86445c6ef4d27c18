"""The groups of verbs of the order of runs, and of where they run; a verb is loaded when it is used."""

from __future__ import annotations

from duetime.server.cli.help import DeferredVerb, VerbsOf

_POLICY = "duetime.server.cli.order.policy"

POLICY_VERBS = VerbsOf(
    name="policy",
    help="The policy, which decides the order of runs; without a verb it is shown.",
    rich_markup_mode=None,
    commands=(
        DeferredVerb(
            "show",
            f"{_POLICY}:show",
            "Show the policy in force: its numbers by tier.",
            examples=("duetime policy show",),
        ),
        DeferredVerb(
            "set",
            f"{_POLICY}:set_",
            "Change numbers of the policy in all processes, within seconds; everything else stays.",
            examples=(
                "duetime policy set patience.normal='2 minutes' --reason 'chats wait for them' --dry-run",
                'duetime policy set \'{"shares": {"low": 0.12}}\'',
            ),
        ),
        DeferredVerb(
            "history",
            f"{_POLICY}:history",
            "List the versions of the policy, newest first: who set each, when, why and what it changed.",
            examples=("duetime policy history",),
        ),
        DeferredVerb(
            "shadow",
            "duetime.server.cli.order.shadow:shadow",
            "Compare a policy with recorded decisions before it is switched on; without arguments, show the result.",
            examples=(
                "duetime policy shadow patience.low='10 minutes' shares.low=0.12 --reason 'reports are late'",
                "duetime policy shadow",
                "duetime policy shadow --off",
            ),
        ),
        DeferredVerb(
            "rollback",
            f"{_POLICY}:rollback",
            "Make an earlier version of the policy the newest one; 0 is the default.",
            examples=("duetime policy rollback 3 --reason 'reports were late'",),
        ),
    ),
)

_DECISIONS = "duetime.server.cli.order.decisions"

DECISION_VERBS = VerbsOf(
    name="decisions",
    help="Recorded decisions of the queue: why a run went first. Without a verb it lists them.",
    rich_markup_mode=None,
    commands=(
        DeferredVerb(
            "list",
            f"{_DECISIONS}:list_",
            "List recorded decisions of the queue, newest first: which run, what became of it, why its tier.",
            examples=("duetime decisions list --task t_7k3m9qx2w4hb", "duetime decisions list --tenant '*' --json"),
        ),
        DeferredVerb(
            "show",
            f"{_DECISIONS}:show",
            "Show one decision in words: why this tier and this run, what else waited, and what the pools had.",
            examples=("duetime decisions show d_7k3m9qx2w4hb00000000",),
        ),
    ),
)

_POOLS = "duetime.server.cli.pools"

POOL_VERBS = VerbsOf(
    name="pools",
    help="Pools, which limit concurrency and rate; without a verb it lists those that are declared.",
    rich_markup_mode=None,
    commands=(
        DeferredVerb("list", f"{_POOLS}:pools_list", "List the declared pools.", examples=("duetime pools list",)),
        DeferredVerb(
            "set",
            f"{_POOLS}:pools_set",
            "Create or change a pool at run time; existing reservations stay.",
            examples=('duetime pools set gpu \'{"kind": "slots", "capacity": 2}\'',),
        ),
        DeferredVerb(
            "remove",
            f"{_POOLS}:pools_remove",
            "Remove a pool; tasks that need it fall under its template, or are held until it is declared again.",
            examples=("duetime pools remove gpu",),
        ),
    ),
)

_WORKERS = "duetime.server.cli.workers"

WORKER_VERBS = VerbsOf(
    name="workers",
    help="The worker processes of a shared installation; without a verb it lists them.",
    rich_markup_mode=None,
    commands=(
        DeferredVerb(
            "list",
            f"{_WORKERS}:list_",
            "List the worker processes of a shared installation, on any machine, and the workers elsewhere.",
            examples=("duetime workers list", "duetime workers list --here"),
        ),
        DeferredVerb(
            "drain",
            f"{_WORKERS}:drain",
            "Let workers take no more runs and stay alive, until they are resumed or stopped.",
            examples=(
                "duetime workers drain node-7-4711-3f9a2c --reason 'kernel upgrade'",
                "duetime workers drain --all --now",
            ),
        ),
        DeferredVerb(
            "resume",
            f"{_WORKERS}:resume",
            "Let drained workers take runs again.",
            examples=("duetime workers resume --all",),
        ),
    ),
)
