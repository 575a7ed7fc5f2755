"""What is read on behalf of a client: accounts, and their statements."""
