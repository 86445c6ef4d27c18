"""Tasks that come after others, and answers to questions before a run, as they are kept: a part of the store."""
