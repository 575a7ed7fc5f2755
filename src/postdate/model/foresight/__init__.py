"""Forecasts of load, lateness and money, from stored rows and the rules of schedules."""
