"""Foresight: why a run has not started yet, and the view of a task that answers show."""
