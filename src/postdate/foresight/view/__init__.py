"""Reads on behalf of a client."""
