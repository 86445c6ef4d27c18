"""Ranges of internet addresses that an outgoing request may or may not reach.

`ipaddress` alone is not enough: it classifies translated addresses, cloud metadata services and multicast as global,
and the carrier-grade range as not private.
"""

from __future__ import annotations

import re
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address


class Reach(StrEnum):
    """The network behind an address: the internet, a private network, or one that no request may reach."""

    PUBLIC = "public"
    PRIVATE = "private"
    FORBIDDEN = "forbidden"


_FORBIDDEN: Final = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # this host
        "100.100.100.200/32",  # metadata, Alibaba
        "168.63.129.16/32",  # platform services, Azure
        "169.254.0.0/16",  # link-local: metadata of most clouds
        "192.0.0.0/24",  # protocol assignments; metadata, Oracle
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
        "::/96",  # unspecified, IPv4-compatible (the loopback is looked up first)
        "64:ff9b::/96",  # NAT64: reaches any IPv4 address
        "64:ff9b:1::/48",
        "100::/64",  # discard
        "2001::/23",  # Teredo and other assignments
        "2001:db8::/32",
        "2002::/16",  # 6to4: reaches any IPv4 address
        "3fff::/20",
        "5f00::/16",
        "fd00:42::42/128",  # metadata, Scaleway
        "fd00:a9fe:a9fe::1/128",  # metadata, Akamai (Linode)
        "fd00:ec2::/32",  # metadata and credentials, AWS
        "fd20:ce::254/128",  # metadata, Google
        "fe80::/10",  # link-local
        "fec0::/10",  # site-local, deprecated
        "ff00::/8",  # multicast
    )
)
_PRIVATE: Final = tuple(
    ip_network(text)
    for text in (
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "fc00::/7",
    )
)
_LOOPBACK6: Final = IPv6Address("::1")
_UNICAST6: Final = ip_network("2000::/3")
"""Global unicast, all that IANA has allocated of IPv6 (RFC 4291)."""


def reach(text: str) -> Reach:
    """Classify a literal address; raises `ValueError` for any other text."""
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        return _reach6(address)
    return _look_up(address)


def literal(host: str) -> str | None:
    """Return the address of a URL's host as plain text; None for a name.

    Raises `ValueError` for the short and numeric spellings that system resolvers accept as IPv4 (`127.1`, `0x7f000001`,
    `2130706433`, `0177.0.0.1`).
    """
    bare = host.strip("[]")
    try:
        return str(ip_address(bare))
    except ValueError:
        last = bare.rstrip(".").rpartition(".")[2]
        if re.fullmatch(r"\d+|0[xX][0-9a-fA-F]*", last) or ":" in bare:
            raise
        return None


def _reach6(address: IPv6Address) -> Reach:
    if address == _LOOPBACK6:
        return Reach.PRIVATE
    if address.ipv4_mapped is not None:
        return _look_up(address.ipv4_mapped)
    return Reach.FORBIDDEN if address.scope_id else _look_up(address)


def _look_up(address: Address) -> Reach:
    """Look up the forbidden ranges first, then the private ones.

    An address that is not known as global is forbidden.
    """
    if any(address in network for network in _FORBIDDEN):
        return Reach.FORBIDDEN
    if any(address in network for network in _PRIVATE):
        return Reach.PRIVATE
    allocated = isinstance(address, IPv4Address) or address in _UNICAST6
    return Reach.PUBLIC if allocated and address.is_global else Reach.FORBIDDEN
