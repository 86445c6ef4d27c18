"""Alerts of the installation itself and the report of the week: one process looks and notifies the channels."""
