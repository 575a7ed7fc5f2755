"""Destinations: where calls may go, how they are signed, how they fare."""
