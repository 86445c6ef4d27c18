"""Tasks that come after others, as they are kept: a part of the store."""
