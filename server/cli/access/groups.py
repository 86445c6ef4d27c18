"""The groups of verbs that decide who may call, and show who did; a verb is loaded when it is used."""

from __future__ import annotations

from duetime.server.cli.help import DeferredVerb, VerbsOf

_HERE = "duetime.server.cli.access"
_KEYS, _SECRETS, _AUDIT = f"{_HERE}.keys", f"{_HERE}.secrets", f"{_HERE}.audit"

KEY_VERBS = VerbsOf(
    name="keys",
    help="API keys, with which clients call `duetime serve` from other machines; without a verb it lists them.",
    rich_markup_mode=None,
    commands=(
        DeferredVerb(
            "list",
            f"{_KEYS}:list_",
            "List the API keys: whose each is, what it may do, when it ends and when it was last used.",
            examples=("duetime keys list",),
        ),
        DeferredVerb(
            "create",
            f"{_KEYS}:create",
            "Create an API key and show it, which happens only once.",
            examples=("duetime keys create laptop", "duetime keys create ci --tenant acme --expires '90 days'"),
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

SECRET_VERBS = VerbsOf(
    name="secrets",
    help="Secrets, which tasks and settings name as `secret:name`; without a verb it lists them. No value is shown.",
    rich_markup_mode=None,
    commands=(
        DeferredVerb(
            "list",
            f"{_SECRETS}:list_",
            "List the secrets by name: who set each, when it was last used, and where webhooks may send it.",
            examples=("duetime secrets list",),
        ),
        DeferredVerb(
            "set",
            f"{_SECRETS}:set_",
            "Store a secret, or replace its value, which is read from stdin or asked for.",
            examples=("duetime secrets set stripe-key --host api.stripe.com", "duetime secrets set crm --tenant acme"),
        ),
        DeferredVerb(
            "remove",
            f"{_SECRETS}:remove",
            "Remove a secret; runs that need it are blocked or fail from then on.",
            examples=("duetime secrets remove stripe-key",),
        ),
        DeferredVerb(
            "rotate",
            f"{_SECRETS}:rotate",
            "Encrypt every secret again by the first of the secret keys, so that the others can be removed.",
            examples=("duetime secrets rotate",),
        ),
    ),
)

AUDIT_VERBS = VerbsOf(
    name="audit",
    help="The audit: what callers did to keys, pools, secrets and others; without a verb it lists that.",
    rich_markup_mode=None,
    commands=(
        DeferredVerb(
            "list",
            f"{_AUDIT}:list_",
            "List what callers did apart from task changes, newest first: who, by which way, to what and why.",
            examples=("duetime audit list --since yesterday", "duetime audit list --surface rest --who ann"),
        ),
        DeferredVerb(
            "head",
            f"{_AUDIT}:head",
            "Show the end of each audit chain, to be kept elsewhere: it stands for all entries up to it.",
            examples=("duetime audit head",),
        ),
        DeferredVerb(
            "verify",
            f"{_AUDIT}:verify",
            "Verify the audit chains; exit with 1 when anything sealed was changed, deleted too early, added or moved.",
            examples=("duetime audit verify", "duetime audit verify --tenant acme"),
        ),
    ),
)
