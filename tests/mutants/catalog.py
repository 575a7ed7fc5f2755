"""Every seeded bug."""

from mutants import caller, money, outside, worker

MUTANTS = (*worker.MUTANTS, *money.MUTANTS, *outside.MUTANTS, *caller.MUTANTS)
