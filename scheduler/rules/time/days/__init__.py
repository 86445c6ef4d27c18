"""Days in words, and the arithmetic of the calendar."""
