"""The buttons, one module for each noun: each change goes through intake."""
