"""What proofs read of the whole database."""
