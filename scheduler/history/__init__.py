"""The words of the history of runs: filters, pages and counts."""
