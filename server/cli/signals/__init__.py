"""The verbs that send events."""
