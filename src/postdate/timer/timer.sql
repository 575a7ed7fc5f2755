-- Timers: what will happen, and who is at it. A statement names one bucket, or exact keys.

-- name: timer_heads
-- The first timer of each (bucket, lane), not before the low-water mark: below it only dead rows
-- remain, and walking them under a pinned snapshot would cost more than the claim itself.
SELECT bucket, lane_id, due_at, extract(epoch FROM due_at - clock())::float8 AS seconds
  FROM timer_first($1::smallint[], $2::integer[], $3::timestamptz[])
 WHERE due_at < 'infinity'

-- name: timer_lanes
-- The lanes with timers in each gap between two lanes, with their first timers. What waits for a
-- person is as far away as can be told.
SELECT bucket, lane_id, due_at, extract(epoch FROM due_at - clock())::float8 AS seconds
  FROM (SELECT bucket, lane_id, least(due_at, '9999-12-31') AS due_at
          FROM timer_lanes($1::smallint[], $2::integer[], $3::integer[], $4)) AS found
