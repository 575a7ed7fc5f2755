"""Web pages over views; every button goes through intake."""
