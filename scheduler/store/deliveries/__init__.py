"""Deliveries of outcomes, and the quiet hours by which users put them off."""
