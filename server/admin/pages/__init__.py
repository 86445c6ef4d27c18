"""The pages behind the frame: one module each, with the functions that answer and their routes."""
