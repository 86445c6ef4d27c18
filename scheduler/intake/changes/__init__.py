"""What a call that changes a task asks for: a reschedule, or the action of a button."""
