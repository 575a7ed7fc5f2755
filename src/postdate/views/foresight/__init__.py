"""What will be: load, lateness and money ahead."""
