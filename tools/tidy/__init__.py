"""What a linter does not know about this project: pure rules over the text of its files."""
