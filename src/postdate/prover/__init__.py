"""Compare the tables with the sealed chain and with each other; report, never repair."""
