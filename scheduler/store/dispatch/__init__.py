"""Dispatch: runs that are due, missed, blocked or lost, and series that continue by themselves."""
