"""The schema: tables, column types, constraints, and rows as values."""
