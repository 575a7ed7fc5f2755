"""Look for a word in a page or an answer, in which ids and tokens hold any three hex digits."""

import re


def has_word(text: str, word: str) -> bool:
    """Say whether a word stands by itself: `ada` does not in `35f233cdb7ada7cba712`."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None
