"""A limit on wrong logins: by address, so that whoever guesses keys keeps nobody else out."""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

MAX_WRONG_LOGINS: Final = 10
"""Wrong logins of an address within LOGIN_WINDOW_S; more are refused unchecked until the first one is that old."""

LOGIN_WINDOW_S: Final = 300.0
MAX_ADDRESSES_KNOWN: Final = 10_000
HOME_NETWORK_BITS: Final = 64
"""Prefix of an IPv6 address that identifies one caller, who may choose the rest freely."""


class LoginLimits:
    """Counts wrong logins in this process. Thread-safe; with too many addresses, the longest silent one is dropped."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, address: str) -> int:
        """Return after how many whole seconds a login of this address is checked again; 0 for now."""
        with self._lock:
            wrong = self._recent(_home(address))
            return math.ceil(wrong[0] + LOGIN_WINDOW_S - self._clock()) if len(wrong) >= MAX_WRONG_LOGINS else 0

    def count(self, address: str) -> None:
        """Count a wrong login."""
        with self._lock:
            home = _home(address)
            wrong = self._recent(home)
            wrong.append(self._clock())
            self._wrong[home] = wrong
            self._wrong.move_to_end(home)
            if len(self._wrong) > MAX_ADDRESSES_KNOWN:
                self._wrong.popitem(last=False)

    def _recent(self, home: str) -> deque[float]:
        wrong, oldest = self._wrong.get(home, deque(maxlen=MAX_WRONG_LOGINS)), self._clock() - LOGIN_WINDOW_S
        while wrong and wrong[0] <= oldest:
            wrong.popleft()
        return wrong


def _home(address: str) -> str:
    """Return the part of an address that identifies its caller."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found.packed, HOME_NETWORK_BITS), strict=False))
