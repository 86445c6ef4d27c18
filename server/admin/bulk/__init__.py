"""Changes of many runs from the admin page: the question before, the change, and its undo."""
