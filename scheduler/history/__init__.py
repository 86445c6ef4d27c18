"""The words of the history of runs: filters, pages and counts; and rules of what is kept of it."""
