"""What every noun needs to take something in: idempotency, events, groups of requests."""
