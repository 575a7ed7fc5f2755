"""Jobs: accept, change, cancel and redrive them; the lanes in which they wait."""
