"""Steps of a chain: what each has for itself, and what it has of the chain."""
