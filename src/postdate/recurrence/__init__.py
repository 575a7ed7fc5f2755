"""When a schedule is due: from the text of a rule to the instants at which it runs.

`cron` and `rrule` say what a rule means on the wall clock, `calendar` which days are open, `zone`
and `mapping` which instants a reading of the clock means. `plan` puts them together, `remembered`
keeps what many schedules share, `words` says a rule in English. Nothing here does I/O.
"""
