"""The check of `duetime doctor` on secrets: whether this process can decrypt them, and all others have its key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from duetime.scheduler.access.secret import Secret
from duetime.scheduler.nodes.heartbeat import words_on_keys
from duetime.scheduler.store import Store
from duetime.server.doctor.check import Check, CheckVerdict

MAX_NAMES_SHOWN = 5


KeysOfServers = Callable[[], Mapping[str, Sequence[str]]]
"""Returns the ids of the secret keys of each server that is there, by its name."""


def secrets_check(servers: KeysOfServers, store: Store) -> Check:
    """Look whether the keys that are set decrypt every secret, and whether each other process has the first of them.

    A secret of an older key was set before the rotation, or after it by a process that lacks the new key.
    """
    count, closed = len(store.secrets.all()), store.secrets.undecryptable()
    if not count:
        return Check("secrets", CheckVerdict.OK, "there is none")
    if closed:
        them = "it" if len(closed) == 1 else "them"
        return Check(
            "secrets",
            CheckVerdict.WRONG,
            f"no key decrypts {_named(closed)}: runs that need {them} fail.",
            f"Add the key that encrypted {them} last to DUETIME_SECRET_KEYS, or `duetime secrets set` {them} again.",
        )
    if text := words_on_keys(store):
        return Check("secrets", CheckVerdict.WRONG, text, "Set it in DUETIME_SECRET_KEYS there, and restart them.")
    if without := _servers_without_key(servers(), store):
        text = f"these servers do not report the first key: {', '.join(without)}."
        advice = (
            "They refuse to set a secret, or encrypt it by an older key, which has to be kept. Set the key in "
            "DUETIME_SECRET_KEYS there, and restart them, unless nobody sets secrets through them."
        )
        return Check("secrets", CheckVerdict.NOTE, text, advice)
    if older := store.secrets.of_older_keys():
        text = f"an older key encrypts {_named(older)}: keep it."
        advice = "`duetime secrets rotate` encrypts by the first key. A process that sets secrets may lack that one."
        return Check("secrets", CheckVerdict.NOTE, text, advice)
    return Check("secrets", CheckVerdict.OK, f"{count} secret{'s' if count != 1 else ''}, each can be decrypted")


def _servers_without_key(servers: Mapping[str, Sequence[str]], store: Store) -> list[str]:
    """Return the names of the servers that do not report the first key of this process; workers are checked before."""
    first, workers = {*store.secrets.key_ids[:1]}, {worker.id for worker in store.workers.all()}
    return [name for name, key_ids in servers.items() if name not in workers and not first <= {*key_ids}]


def _named(secrets: Sequence[Secret]) -> str:
    names = [f"{secret.name} of {secret.tenant}" for secret in secrets[:MAX_NAMES_SHOWN]]
    return ", ".join(names) + (f" and {len(secrets) - len(names)} more" if len(secrets) > len(names) else "")
