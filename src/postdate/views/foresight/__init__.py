"""Forecasts of load, lateness and money."""
