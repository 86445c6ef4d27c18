"""The threads of a worker: headroom for urgent runs, preemption, and lost threads."""
