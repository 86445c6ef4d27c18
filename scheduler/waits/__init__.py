"""Waits: signals that callers send, and the approvals of people.

In the code an event is a row of the history.
"""
