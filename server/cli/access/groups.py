"""The groups of verbs that decide who may call; a verb is loaded when it is used."""

from __future__ import annotations

from duetime.server.cli.help import DeferredVerb, Verbs

_HERE = "duetime.server.cli.access"
_KEYS = f"{_HERE}.keys"

KEYS = Verbs(
    name="keys",
    help="API keys, with which clients call `duetime serve` from other machines.",
    rich_markup_mode=None,
    commands=(
        DeferredVerb(
            "create",
            f"{_KEYS}:create",
            "Create an API key and show it, which happens only once.",
            examples=("duetime keys create laptop", "duetime keys create ci --tenant acme --expires '90 days'"),
        ),
        DeferredVerb(
            "list",
            f"{_KEYS}:list_",
            "List the API keys: whose each is, what it may do, when it ends and when it was last used.",
            examples=("duetime keys list",),
        ),
        DeferredVerb(
            "revoke",
            f"{_KEYS}:revoke",
            "Revoke an API key, or all of a tenant; the next call with it is refused.",
            examples=("duetime keys revoke 7k3m9qx2w4hb", "duetime keys revoke --tenant acme"),
        ),
        DeferredVerb(
            "rotate",
            f"{_KEYS}:rotate",
            "Replace an API key by a new one of the same principal; the old one stays valid for the overlap.",
            examples=("duetime keys rotate 7k3m9qx2w4hb --overlap '2 hours'",),
        ),
    ),
)
