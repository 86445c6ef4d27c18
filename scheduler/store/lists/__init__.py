"""Lists of tasks and of events, page by page, and counts."""
