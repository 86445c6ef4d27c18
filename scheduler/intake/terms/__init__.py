"""The terms of a task and of a step: its approval, what its result has to meet, what follows from a failure."""
