"""Dead letters: they are read, replayed and discarded."""
