"""The kernel of configuration nouns: what a noun is, is declared once."""
