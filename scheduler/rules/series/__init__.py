"""Rules by which a series goes on: what overlaps, what was missed, what fails in a row."""
