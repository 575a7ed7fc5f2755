-- Timers: what will happen, and who is at it. A statement names one bucket, or exact keys.

-- name: timer_heads
-- The first timer of each (bucket, lane), not before the low-water mark: below it only dead rows
-- remain, and walking them under a pinned snapshot would cost more than the claim itself.
SELECT bucket, lane_id, due_at, extract(epoch FROM due_at - clock())::float8 AS seconds
  FROM timer_first($1::smallint[], $2::integer[], $3::timestamptz[])
 WHERE due_at < 'infinity'
