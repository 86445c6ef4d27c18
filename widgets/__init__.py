"""Cards: payloads, their text twins, and the HTML that a chat shows."""
