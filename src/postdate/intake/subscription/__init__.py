"""Subscriptions: who is sent which events."""
