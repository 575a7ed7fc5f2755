-- Timers: what will happen, and who is at it. A statement names one bucket, or exact keys.

-- name: timer_insert
INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
SELECT * FROM unnest($1::smallint[], $2::integer[], $3::integer[], $4::uuid[], $5::timestamptz[])

-- name: timer_heads
-- The first timer of each (bucket, lane), not before the low-water mark: below it only dead rows
-- remain, and walking them under a pinned snapshot would cost more than the claim itself.
SELECT wanted.bucket, wanted.lane_id, head.due_at,
       extract(epoch FROM head.due_at - clock())::float8 AS seconds
  FROM unnest($1::smallint[], $2::integer[], $3::timestamptz[]) AS wanted (bucket, lane_id, low)
 CROSS JOIN LATERAL (
       SELECT t.due_at FROM timer t
        WHERE t.bucket = wanted.bucket AND t.lane_id = wanted.lane_id AND t.due_at >= wanted.low
        ORDER BY t.due_at LIMIT 1) AS head
 WHERE head.due_at < 'infinity'
