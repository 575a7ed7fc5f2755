"""The endpoints, one module for each noun."""
