"""Accept, reschedule and cancel: validate, remember, hold and insert in one commit."""
