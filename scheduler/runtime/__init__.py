"""The parts of every loop: the loop itself, the tail of the event log, the file lock, fail points."""
