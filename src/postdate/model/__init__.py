"""The words: ids, states, outcomes, money, errors."""
