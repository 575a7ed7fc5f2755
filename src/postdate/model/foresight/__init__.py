"""What will be: load, lateness and money, computed from what is stored and what the rules say."""
