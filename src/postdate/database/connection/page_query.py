"""Combine a list query with the rows of what it finds, in one statement."""

from functools import lru_cache
from typing import Final

MAX_TEXTS: Final = 64
"""How many texts are remembered: there is one for each list."""


@lru_cache(MAX_TEXTS)
def with_rows(listed: str, columns: str, read: str, key: str) -> str:
    """Extend a list query so that it also returns the row of each subject that it finds.

    `columns` are those of the list: `subject` is an id, `is_edge` says that it only ends the walk.
    `read` calls a function with `buckets`, `ids`, `first_id` and `last_id` of what was found; `key`
    is its column of ids.
    """
    shown = ", ".join(f"placed.{column}" for column in columns.split(", "))
    return f"""
WITH listed ({columns}) AS MATERIALIZED (
{listed}),
placed AS MATERIALIZED (SELECT *, row_number() OVER () AS place FROM listed),
wanted AS (
    SELECT array_agg(bucket_of(subject)) AS buckets, array_agg(subject) AS ids,
           (array_agg(subject ORDER BY subject))[1] AS first_id,
           (array_agg(subject ORDER BY subject DESC))[1] AS last_id
      FROM placed WHERE NOT is_edge HAVING count(*) > 0)
SELECT {shown}, shown.* FROM placed
  LEFT JOIN (SELECT found.* FROM wanted CROSS JOIN LATERAL {read} AS found) AS shown
    ON shown.{key} = placed.subject AND NOT placed.is_edge
 ORDER BY placed.place"""  # noqa: S608 - our own named queries
