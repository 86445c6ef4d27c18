"""The verbs that keep, delete and save what is stored."""
