"""Changes of whole chains, and answers to what their steps ask."""
