"""The groups of verbs of what happened; a verb is loaded when it is used."""

from __future__ import annotations

from duetime.server.cli.help import DeferredVerb, VerbsOf

_DEAD = "duetime.server.cli.past.dead"

DEAD_VERBS = VerbsOf(
    name="dead",
    help="Dead letters: runs that are out of attempts. Without a verb it lists those that are open.",
    rich_markup_mode=None,
    commands=(
        DeferredVerb(
            "list",
            f"{_DEAD}:list_",
            "List runs that are out of attempts, newest first, and why.",
            examples=("duetime dead list --action webhook --since 'last night'", "duetime dead list --csv"),
        ),
        DeferredVerb(
            "show",
            f"{_DEAD}:show",
            "Show one dead letter: its payload, and every attempt with its reason.",
            examples=("duetime dead show r_7k3m9qx2w4hb00000000",),
        ),
        DeferredVerb(
            "replay",
            f"{_DEAD}:replay",
            "Run dead letters once more: those that are named, or the oldest of a filter.",
            examples=(
                "duetime dead replay r_7k3m9qx2w4hb00000000",
                "duetime dead replay --action webhook --reason 'the CRM is back' --dry-run",
            ),
        ),
        DeferredVerb(
            "discard",
            f"{_DEAD}:discard",
            "Close dead letters that need no replay; they stay in the history.",
            examples=("duetime dead discard r_7k3m9qx2w4hb00000000 --reason 'sent by hand'",),
        ),
        DeferredVerb(
            "undo",
            f"{_DEAD}:undo",
            "Take a replay or a discard back, within ten minutes: the letters are open again.",
            examples=("duetime dead undo u_b7k3m9qx2w4h",),
        ),
    ),
)
