"""Series that continue whatever their run does: the next occurrence overtakes it. Pauses that end by themselves."""
