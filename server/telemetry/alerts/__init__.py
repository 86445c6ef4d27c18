"""Alerts of the installation itself: one process looks and tells the channels."""
