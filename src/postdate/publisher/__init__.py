"""Seal events into a hash chain and deliver them to subscriptions."""
