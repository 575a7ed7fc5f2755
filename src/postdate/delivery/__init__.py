"""Handlers that leave the building: payload in, outcome out, no database."""
