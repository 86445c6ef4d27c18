"""Arguments that say what a run waits for before it starts."""
