"""The payloads in other forms: A2UI messages, sentences to be spoken, cells of CSV, text for a terminal."""
