"""Jobs: accepted, changed, listed, executed and removed."""
