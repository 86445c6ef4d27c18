"""Lists of tasks, page by page, and their counts."""
