"""Pages and buttons of the console."""
