"""The only code that speaks SQL: a folder for each noun, with `x.py` beside its `x.sql`."""
