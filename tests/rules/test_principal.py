"""The caller: where programs import it from."""

from __future__ import annotations

from duetime.scheduler import principal, task


def test_a_program_that_imports_the_caller_from_its_former_module_gets_the_same_class() -> None:
    assert task.Principal is principal.Principal
    assert task.LOCAL is principal.LOCAL
