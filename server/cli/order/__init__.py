"""The verbs of the order of runs: policies."""
