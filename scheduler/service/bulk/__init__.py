"""Changes of many tasks by one call, and their undo."""
