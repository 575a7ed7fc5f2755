"""Pages of the console: load and money ahead."""
