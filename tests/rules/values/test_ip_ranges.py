"""Addresses that a request of a user may reach."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from duetime.scheduler.rules.ip_ranges import Reach, literal, reach
from hypothesis import given
from hypothesis import strategies as st

PUBLIC = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e", "::ffff:8.8.8.8"]
PRIVATE = [
    *("10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.1", "127.0.0.1", "127.8.8.8"),
    *("100.64.0.1", "100.127.255.255", "198.18.0.1", "::1", "fc00::1", "fdff::1", "::ffff:127.0.0.1"),
    "::ffff:10.0.0.1",
]
FORBIDDEN = [
    *("0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.0.1", "168.63.129.16", "192.0.0.192", "100.100.100.200"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.51.100.1", "203.0.113.9"),
    *("::", "::7f00:1", "64:ff9b::a00:1", "64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::", "2002:808:808::1"),
    *("2001::1", "2001:db8::1", "fe80::1", "fe80::1%eth0", "ff02::1", "ff0e::1", "fec0::1", "fd00:ec2::254"),
    *("::ffff:169.254.169.254", "::ffff:168.63.129.16", "100::1", "2606:4700::1%lo"),
    *(
        "fd00:ec2::23",
        "fd00:42::42",
        "fd00:a9fe:a9fe::1",
        "fd20:ce::254",
        "200::1",
        "1fff::1",
        "4000::1",
        "8000::1",
        "f000::1",
    ),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_the_internet_is_public(address: str) -> None:
    assert reach(address) is Reach.PUBLIC


@pytest.mark.parametrize("address", PRIVATE)
def test_networks_of_ones_own_are_private(address: str) -> None:
    assert reach(address) is Reach.PRIVATE


@pytest.mark.parametrize("address", FORBIDDEN)
def test_metadata_translation_and_multicast_are_forbidden_whatever_is_configured(address: str) -> None:
    assert reach(address) is Reach.FORBIDDEN


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_nothing_is_public_that_the_library_calls_private(address: IPv4Address | IPv6Address) -> None:
    if reach(str(address)) is Reach.PUBLIC:
        assert address.is_global
        assert not address.is_multicast


@given(st.ip_addresses(v=4))
def test_an_address_in_the_clothes_of_the_other_family_is_judged_as_itself(address: IPv4Address) -> None:
    assert reach(f"::ffff:{address}") is reach(str(address))


@pytest.mark.parametrize("host", ["example.com", "a.b", "localhost", "1a.example", "0xy.example", "deadbeef"])
def test_a_name_is_no_address(host: str) -> None:
    assert literal(host) is None


@pytest.mark.parametrize(
    ("host", "address"), [("1.2.3.4", "1.2.3.4"), ("[::1]", "::1"), ("[2001:DB8::1]", "2001:db8::1")]
)
def test_an_address_is_given_in_its_plain_form(host: str, address: str) -> None:
    assert literal(host) == address


@pytest.mark.parametrize(
    "host", ["2130706433", "127.1", "0x7f000001", "0x7f.1", "0177.0.0.1", "1.2.3.4.", "1.2.3.4.5", "0x", "a:b", "x.0x1"]
)
def test_a_misleading_spelling_of_an_address_is_an_error(host: str) -> None:
    with pytest.raises(ValueError, match="address"):
        literal(host)
