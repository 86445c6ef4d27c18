"""How a series goes on: what overlaps, what fails in a row."""
