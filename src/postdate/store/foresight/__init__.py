"""What will be due, by minute."""
