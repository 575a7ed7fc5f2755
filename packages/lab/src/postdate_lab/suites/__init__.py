"""Suites that nobody here wrote: each is adapted to Postdate, and each difference explained."""
