-- Keys of a lane: which of them have due jobs, and what may start of each.

-- name: lane_key_walk
-- The keys of the first due timers after a position, each with its own first one, the present, and
-- how far the walk came: NULL where nothing was left. Without timers there is one row without key.
WITH seen AS MATERIALIZED (
    SELECT t.key_id, t.due_at, t.subject, t.claimed_at IS NOT NULL AS lost FROM timer t
     WHERE t.bucket = $1 AND t.lane_id = $2 AND (t.due_at, t.subject) > ($3, $4::uuid)
       AND t.due_at <= clock() AND t.key_id IS NOT NULL
     ORDER BY t.due_at, t.subject LIMIT $5),
last AS MATERIALIZED (
    SELECT due_at, subject FROM seen ORDER BY due_at, subject OFFSET $5 - 1)
SELECT first.key_id, first.due_at, first.subject, first.lost, now.at,
       (SELECT due_at FROM last) AS last_due_at, (SELECT subject FROM last) AS last_subject
  FROM (SELECT clock() AS at) AS now
  LEFT JOIN (SELECT DISTINCT ON (s.key_id) s.key_id, s.due_at, s.subject,
                    bool_or(s.lost) OVER (PARTITION BY s.key_id) AS lost
               FROM seen s ORDER BY s.key_id, s.due_at, s.subject) AS first ON true
 ORDER BY first.due_at, first.subject

-- name: lane_key_choose
SELECT * FROM lane_key_choose($1, $2, $3, $4, $5, $6, $7, $8)

-- name: lane_key_spend
SELECT lane_key_spend($1, $2, $3, $4)

-- name: lane_key_waits
SELECT * FROM lane_key_waits($1, $2, $3, $4)

-- name: lane_key_sweep
-- Keys that may start their whole burst again. A row that a claim has locked is skipped.
DELETE FROM lane_key WHERE bucket = $1 AND key_id IN (
    SELECT k.key_id FROM lane_key k
     WHERE k.bucket = $1 AND k.full_at <= clock() FOR UPDATE SKIP LOCKED)
