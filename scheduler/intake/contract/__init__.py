"""The terms of a task: what its result has to meet, and what follows from a failure."""
