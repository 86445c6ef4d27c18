"""Changes of tasks as their events have them, by which they are taken back."""
