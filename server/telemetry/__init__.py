"""Subscribers of the events of runs, which the application connects."""
