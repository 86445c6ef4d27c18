"""Series that go on whatever their run does: the next occurrence overtakes it. Pauses that end by themselves."""
