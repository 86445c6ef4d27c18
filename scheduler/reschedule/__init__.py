"""Reschedules: the words of a call that changes a task."""
