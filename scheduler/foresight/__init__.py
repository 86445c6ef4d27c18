"""Foresight: why a run is not running yet, and the view of a task that answers show."""
