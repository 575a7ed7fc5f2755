"""Every seeded bug."""

from mutants import money, outside, worker

MUTANTS = (*worker.MUTANTS, *money.MUTANTS, *outside.MUTANTS)
