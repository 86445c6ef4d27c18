"""The logs of runs: lines of handlers are gathered in memory, and stored in batches."""
