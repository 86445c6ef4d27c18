"""What every loop is built from: the loop itself, the file lock, fail points."""
