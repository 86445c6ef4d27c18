"""Series that go on by themselves: the next occurrence overtakes a run."""
