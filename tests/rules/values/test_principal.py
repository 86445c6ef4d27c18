"""The caller: its names, and where programs import it from."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler import principal, task
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.principal import Principal


def test_a_program_that_imports_the_caller_from_its_former_module_gets_the_same_class() -> None:
    assert task.Principal is principal.Principal
    assert task.LOCAL is principal.LOCAL


@pytest.mark.parametrize("part", ["tenant", "user"])
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "it has 0 characters"),
        ("x" * 201, "it has 201 characters"),
        ("acme\x00", "it contains U+0000, which is not printable"),
        ("\x1b[2Jacme", "it contains U+001B"),
        ("ac\ud800me", "it contains U+D800"),
        ("ac\u202eme", "it contains U+202E"),
        (" acme", "it has a blank first or last"),
        (7, "expected text, got int"),
    ],
)
def test_a_caller_with_a_name_that_cannot_be_kept_or_shown_is_refused(part: str, name: Any, problem: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Principal(**{part: name})
    assert str(refused.value).startswith(f"{part}: {problem}")
    assert "1 to 200 printable characters" in str(refused.value)


def test_a_scope_of_a_caller_is_held_to_the_same_form() -> None:
    with pytest.raises(InvalidArgument, match=r"^scopes: it contains U\+000A"):
        Principal(scopes=frozenset({"read\nadmin"}))


@pytest.mark.parametrize(
    "name", ["local", "acme/eu", "ann@example.org", "Zoë O'Brien", "日本", "auth0|5f7c8ec7c33c6c004bbafe82"]
)
def test_a_caller_may_have_any_name_that_can_be_shown(name: str) -> None:
    assert Principal(name, name).tenant == name


def test_no_tenant_is_named_as_all_of_them_are() -> None:
    with pytest.raises(InvalidArgument, match=r"^tenant: '\*' stands for all tenants. Accepted: the name of one"):
        Principal("*")
    assert Principal("acme", "*").user == "*"
