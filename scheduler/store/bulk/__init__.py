"""Changes of many tasks: a part of the store."""
