"""API keys, secrets and bearer tokens: words for what lets callers in, and for what runs may use."""
