"""The parts of every loop: the loop itself, the file lock, fail points."""
