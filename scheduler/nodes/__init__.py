"""Processes: the embedded runner, the distributed member, and the loops that both run."""
