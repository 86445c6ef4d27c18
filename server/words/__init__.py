"""Errors in the words of a front end: the command line and the REST API."""
