"""The history of runs: pages and counts over all that there are."""
