"""Verbs on another machine: `duetime --server URL` calls the REST API of a `duetime serve` there."""
