"""Accept, reschedule and cancel: each change of a client is one transaction."""
