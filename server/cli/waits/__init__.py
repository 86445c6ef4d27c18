"""The verbs that end waits: events are sent, approvals answered."""
