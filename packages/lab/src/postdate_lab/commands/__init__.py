"""The commands `postdate bench` and `postdate chaos`."""
