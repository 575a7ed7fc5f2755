"""Run-time settings."""
