"""Answers as JSON, built from what is stored: the REST API and the command line write the same."""
