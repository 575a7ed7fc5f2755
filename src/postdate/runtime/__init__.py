"""What every stage needs: its loop, marks, share of buckets, retries and capacity.

A stage looks, decides and writes. Everything around that is here:

- `loop` repeats a stage's step; the step itself never sleeps.
- `shared_read` sends what several loops ask in the same moment as one statement.
- `wakeup` passes hints between processes, so that loops may sleep longer.
- `share` says which buckets a node prefers.
- `low_water` remembers below which instant a bucket holds nothing but dead rows.
- `clock_guard` decides how far the database's clock is believed.
- `coalescer` lets concurrent requests share one transaction.
- `under_way` owns what is under way until it ends, cancelled or not.
- `retry` tries a batch again, then in halves, until what breaks it is alone.
- `capacity` lends room for what is under way, to one owner at a time.
"""
