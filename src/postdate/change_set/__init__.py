"""Change sets: several changes planned, applied and undone as one."""
