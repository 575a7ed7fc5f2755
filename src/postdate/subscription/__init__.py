"""Subscriptions: which events are delivered to which destination."""
