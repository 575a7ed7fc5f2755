"""What every noun needs to accept requests: idempotency, events, groups of requests."""
