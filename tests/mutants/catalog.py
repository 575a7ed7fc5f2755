"""Every seeded bug."""

from mutants import caller, key, money, outside, worker

MUTANTS = (*worker.MUTANTS, *key.MUTANTS, *money.MUTANTS, *outside.MUTANTS, *caller.MUTANTS)
