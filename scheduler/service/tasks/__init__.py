"""Changes of one task, and answers to what its runs ask."""
