"""One module for each queue: how it is installed, filled and worked off."""
