"""The terms of a run: the check of what it needs first, and the comparison of its result with what is expected."""
