"""Seeded bugs: each is one small change to a copy of the project that some test must notice."""
