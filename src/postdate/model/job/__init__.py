"""Jobs: what to do, how it ended, and what follows."""
