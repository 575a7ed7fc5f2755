"""The state of the whole system: backlog, lateness, readiness and database metrics."""
