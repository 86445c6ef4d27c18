"""Signals: the events that callers send and tasks wait for. In the code an event is a row of the history."""
