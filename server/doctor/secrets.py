"""The check of `duetime doctor` on secrets: whether this process can decrypt them."""

from __future__ import annotations

from duetime.scheduler.store import Store
from duetime.server.doctor.check import Check, CheckVerdict

MAX_NAMES_SHOWN = 5


def secrets_check(store: Store) -> Check:
    """Look whether the keys that are set decrypt every secret."""
    count, closed = len(store.secrets.all()), store.secrets.undecryptable()
    if not closed:
        text = f"{count} secret{'s' if count != 1 else ''}, each can be decrypted" if count else "there is none"
        return Check("secrets", CheckVerdict.OK, text)
    names = [f"{secret.name} of {secret.tenant}" for secret in closed[:MAX_NAMES_SHOWN]]
    more = f" and {len(closed) - len(names)} more" if len(closed) > len(names) else ""
    they, them = ("it was", "it") if len(closed) == 1 else ("they were", "them")
    return Check(
        "secrets",
        CheckVerdict.WRONG,
        f"no key decrypts {', '.join(names)}{more}: runs that need {them} fail.",
        f"Add the key that {they} set with to DUETIME_SECRET_KEYS, or `duetime secrets set` {them} again.",
    )
