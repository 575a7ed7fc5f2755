"""Deterministic simulation: the worker's own code, on a clock and a database made of memory."""
