"""The pages, one module for each noun: they read and change nothing."""
