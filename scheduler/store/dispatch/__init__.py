"""Dispatch: runs that are due, missed, blocked or lost, and series that go on by themselves."""
