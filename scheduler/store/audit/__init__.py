"""The audit log: what callers did apart from task changes, and the hash chain over both."""
