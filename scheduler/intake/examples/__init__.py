"""Examples of refusals: the whole argument as it was sent, corrected."""
