"""Destinations: create, change and test them."""
