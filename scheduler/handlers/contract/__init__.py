"""Outcome contracts: what the result of a task has to be, beyond that its handler says `Done`."""
