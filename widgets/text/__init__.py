"""The text twins of the cards: the same content for a host that shows no card, and for a model that reads no JSON."""
