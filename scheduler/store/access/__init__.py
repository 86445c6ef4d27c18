"""Access: the API keys of callers, and the secrets of runs."""
