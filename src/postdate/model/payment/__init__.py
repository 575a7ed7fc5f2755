"""Payments and amounts."""
