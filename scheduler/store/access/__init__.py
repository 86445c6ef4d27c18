"""API keys: the callers that are let in."""
