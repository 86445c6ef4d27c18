"""The verbs that decide when users are notified."""
