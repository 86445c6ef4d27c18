"""Time phrases: "tomorrow at 9" becomes an instant in a zone."""
