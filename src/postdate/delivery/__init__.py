"""Handlers that call other systems: payload in, outcome out, no database."""
