"""The only code that contains SQL: a folder for each noun, with `x.py` beside its `x.sql`."""
