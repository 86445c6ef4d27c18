"""The threads of a worker: which are kept for urgent runs, who gives way to these, and which were lost."""
