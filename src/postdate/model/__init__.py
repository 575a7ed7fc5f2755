"""The words: ids, states, outcomes, money, errors; a folder for each noun."""
