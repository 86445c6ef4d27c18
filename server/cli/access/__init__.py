"""The verbs that decide who may call."""
