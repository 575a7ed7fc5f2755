-- What a receipt is made of: the facts of a job or payment, each with the seal that holds it.

-- name: receipt_facts
-- Its first fact and what ended it, in the order of the chain. `seal_offset` is NULL while it waits
-- for
-- its seal, `record` where the fact was pruned.
SELECT e.type, e.event_id, s.position - k.position AS seal_offset,
       f.record, k.position, k.sealed_at,
       k.types, k.kinds, k.subjects, k.events, k.digests, k.previous, k.hash
  FROM fact_of_subject($1, $2) AS e
 CROSS JOIN LATERAL (SELECT seal_find($1, $2, e.event_id, e.time) AS position OFFSET 0) AS s
  LEFT JOIN LATERAL (
       SELECT f.record FROM fact_find($1, e.type, $2, e.event_id) AS f OFFSET 0) AS f ON true
  LEFT JOIN LATERAL (
       SELECT * FROM seal_around($1, s.position) OFFSET 0) AS k ON true
 WHERE e.event_id = $2 OR e.type = ANY ($3::text[])
 ORDER BY s.position NULLS LAST LIMIT 10
