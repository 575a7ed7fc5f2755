"""Encryption of secrets and payloads at rest."""
