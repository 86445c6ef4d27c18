"""Calls: what a reschedule or a change of many tasks asks, and which conversation asks it."""
