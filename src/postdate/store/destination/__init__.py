"""Destinations and their troubles."""
