"""Generations of chains that recur: the current one, those next to it, and the one that follows."""
