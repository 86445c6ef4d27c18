"""Calls that change a task: a reschedule, or the action of a button."""
