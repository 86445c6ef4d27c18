"""The payloads in other forms: as A2UI messages, and as sentences to be spoken."""
