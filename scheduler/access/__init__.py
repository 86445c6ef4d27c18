"""API keys and secrets: words for what lets callers in, and for what runs may use."""
