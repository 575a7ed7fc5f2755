"""Every seeded bug."""

from mutants import edge, money, outside, worker

MUTANTS = (*worker.MUTANTS, *money.MUTANTS, *outside.MUTANTS, *edge.MUTANTS)
