"""Forecasts of load and money, and what-if questions."""
