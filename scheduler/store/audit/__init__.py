"""The audit log: what callers did that is no event of a task, and the hash chain over both."""
