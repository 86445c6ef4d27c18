"""The verbs that keep, delete and save what is stored; a verb is loaded when it is used."""

from __future__ import annotations

from duetime.server.cli.help import DeferredVerb, VerbsOf

_HERE = "duetime.server.cli.storage"
_RETENTION = f"{_HERE}.retention"

IMPORT = DeferredVerb(
    "import",
    f"{_HERE}.imports:import_",
    "Store what retention archived and deleted again; what is there already stays as it is.",
    examples=("duetime import /var/lib/duetime/archive/2026-11-24/*.jsonl.gz",),
)

BACKUP = DeferredVerb(
    "backup",
    f"{_HERE}.backup:backup",
    "Copy the SQLite database into a file, while everything else continues.",
    examples=("duetime backup /mnt/backup/duetime-2026-11-24.db",),
)
RETENTION_VERBS = VerbsOf(
    name="retention",
    help="Retention: what is deleted when it is old, by the rules of the settings; without a verb it lists them.",
    rich_markup_mode=None,
    commands=(
        DeferredVerb(
            "status",
            f"{_RETENTION}:status",
            "List the rules of retention, and when each kind of rows was last looked through.",
            examples=("duetime retention status",),
        ),
        DeferredVerb(
            "run",
            f"{_RETENTION}:run",
            "Delete now what the rules of retention allow to be deleted, in small batches, while all else runs on.",
            examples=("duetime retention run --dry-run", "duetime retention run --only events"),
        ),
    ),
)
