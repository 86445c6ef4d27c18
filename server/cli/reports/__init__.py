"""The verbs that say how an installation does."""
