"""What a calendar is, and what its versions mean for occurrences."""
