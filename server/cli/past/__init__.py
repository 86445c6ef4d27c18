"""The verbs that answer what happened: events, runs and failures."""
