"""Secrets at rest: encryption of payloads, rotation of keys."""
