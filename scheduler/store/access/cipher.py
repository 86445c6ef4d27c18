"""Encrypts the values of secrets: the first key encrypts, each of them decrypts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Final

from duetime.scheduler.access.secret import MAKE_A_KEY, SecretUnavailable
from duetime.scheduler.errors import InvalidSetting

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

SECRET_KEY_ID_CHARS: Final = 16

_NO_KEYS: Final = (
    f"secret_keys: secrets need a key to be encrypted with. Set DUETIME_SECRET_KEYS or secret_keys_file; {MAKE_A_KEY}."
)


class Cipher:
    """The keys of this process; a value is bound to its tenant and name, so a row that is moved cannot be read."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)

    @cached_property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the keys, the first one first: hashes from which nobody computes a key."""
        return tuple(
            hashlib.sha256(b"duetime secret key " + key.encode()).hexdigest()[:SECRET_KEY_ID_CHARS]
            for key in self._keys
        )

    @cached_property
    def _fernet(self) -> MultiFernet:
        if not self._keys:
            raise InvalidSetting(_NO_KEYS)
        fernet = import_module("cryptography.fernet")  # few processes ever use a secret
        made: MultiFernet = fernet.MultiFernet([fernet.Fernet(key) for key in self._keys])
        return made

    def encrypted(self, tenant: str, name: str, value: str) -> str:
        """Encrypt a value by the first key. Raises InvalidSetting when this process has none."""
        return self._fernet.encrypt(json.dumps([tenant, name, value]).encode()).decode()

    def decrypted(self, tenant: str, name: str, token: str) -> str:
        """Return the value. Raises SecretUnavailable when no key of this process can decrypt it."""
        owner, named, value = json.loads(self._opened(name, token))
        if (owner, named) != (tenant, name):
            raise SecretUnavailable(name, "its row holds the value of another secret; set it again")
        return str(value)

    def is_by_first_key(self, token: str) -> bool:
        """Whether the first key of this process encrypted a value."""
        fernet = import_module("cryptography.fernet")
        try:
            fernet.Fernet(self._keys[0]).decrypt(token.encode())
        except (IndexError, fernet.InvalidToken, ValueError):
            return False
        return True

    def encrypted_again(self, tenant: str, name: str, token: str) -> str:
        """Encrypt a stored value by the first key. Raises as `decrypted` does."""
        return self.encrypted(tenant, name, self.decrypted(tenant, name, token))

    def _opened(self, name: str, token: str) -> bytes:
        if not self._keys:
            raise SecretUnavailable(name, "this process has no key to decrypt it; set DUETIME_SECRET_KEYS here as well")
        fernet = import_module("cryptography.fernet")
        try:
            return self._fernet.decrypt(token.encode())
        except (fernet.InvalidToken, ValueError):
            raise SecretUnavailable(
                name,
                "no key of this process can decrypt it; add the key that encrypted it last to DUETIME_SECRET_KEYS, "
                "or set it again",
            ) from None
