"""Changes of many tasks by one call: the words, and what became of each task."""
