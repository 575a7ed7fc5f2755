-- Subscriptions: who is sent which events, and how far that has come.

-- name: subscription_insert
INSERT INTO subscription (bucket, tenant_id, subscription_id, destination, types, patterns,
                          accounts, position)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)

-- name: subscription_count
SELECT count(*) FROM subscription WHERE tenant_id = $1

-- name: subscription_delete
DELETE FROM subscription WHERE bucket = $1 AND tenant_id = $2 AND subscription_id = $3

-- name: subscription_pause
UPDATE subscription SET paused_at = clock(), paused_note = $4, version = version + 1
 WHERE bucket = $1 AND tenant_id = $2 AND subscription_id = $3 AND paused_at IS NULL
RETURNING position

-- name: subscription_resume
UPDATE subscription SET paused_at = NULL, paused_note = NULL, failures = 0, failing_since = NULL,
       error = NULL, version = version + 1
 WHERE bucket = $1 AND tenant_id = $2 AND subscription_id = $3 AND paused_at IS NOT NULL
RETURNING position

-- name: subscription_replay
UPDATE subscription SET position = $4, failures = 0, failing_since = NULL, error = NULL,
       version = version + 1
 WHERE bucket = $1 AND tenant_id = $2 AND subscription_id = $3
RETURNING paused_at IS NULL AS running

-- name: subscription_start
-- Have it served now, whatever its timer said.
INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at) VALUES ($1, $2, $3, $4, clock())
ON CONFLICT (bucket, subject) DO UPDATE
   SET due_at = excluded.due_at, claimed_at = NULL, claimed_by = NULL, ready_at = NULL

-- name: subscription_stop
DELETE FROM timer WHERE bucket = $1 AND subject = $2 AND lane_id = $3

-- name: subscription_wake
-- Make timers for subscriptions without one that may want these events. Of a tenant's many
-- subscriptions only those whose types match are touched. A tenant in test mode has its own lane
-- and clock.
INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
SELECT DISTINCT s.bucket, s.tenant_id,
       CASE WHEN c.at IS NULL THEN $3::integer ELSE -(s.tenant_id * 16 + $3) END,
       s.subscription_id, coalesce(c.at, clock())
  FROM unnest($1::integer[], $2::text[]) AS recorded (tenant_id, type)
  JOIN subscription s ON s.tenant_id = recorded.tenant_id AND recorded.type LIKE ANY (s.patterns)
  LEFT JOIN test_clock c ON c.tenant_id = s.tenant_id
 WHERE s.paused_at IS NULL
 ORDER BY s.bucket, s.subscription_id
ON CONFLICT (bucket, subject) DO NOTHING

-- name: subscription_load
-- What delivery needs, when its lease was just taken.
SELECT s.tenant_id, t.name AS tenant, s.destination, s.patterns, s.accounts, s.position, s.version,
       s.failures, extract(epoch FROM clock() - s.failing_since)::float8 AS failing_seconds,
       s.paused_at IS NOT NULL AS paused
  FROM timer lease
  JOIN subscription s ON s.bucket = lease.bucket AND s.tenant_id = lease.tenant_id
                     AND s.subscription_id = lease.subject
  JOIN tenant t ON t.tenant_id = s.tenant_id
 WHERE lease.bucket = $1 AND lease.subject = $2 AND lease.token = $3

-- name: subscription_advance
-- Note what was delivered, if the lease still holds and the subscription is unchanged. A new
-- timer counts its tokens from the beginning, so a late comer is also known by its old position.
UPDATE subscription s
   SET position = $6, error = CASE WHEN $9::boolean THEN $7::text ELSE s.error END,
       delivered_at = CASE WHEN $8::boolean THEN (SELECT clock()) ELSE s.delivered_at END,
       failures = CASE WHEN NOT $9 THEN s.failures WHEN $7 IS NULL THEN 0
                       ELSE s.failures + 1 END,
       failing_since = CASE WHEN NOT $9 THEN s.failing_since
                            WHEN $7 IS NOT NULL THEN coalesce(s.failing_since, (SELECT clock()))
                       END
  FROM timer t
 WHERE s.bucket = $1 AND s.tenant_id = $2 AND s.subscription_id = $3 AND s.version = $5
   AND s.position <= $6 AND t.bucket = $1 AND t.subject = $3
   AND t.token = $4 AND t.claimed_at IS NOT NULL
RETURNING s.failures

-- name: subscription_release_if_idle
SELECT subscription_release_if_idle($1, $2, $3, $4, $5)

-- name: subscription_page
-- With how far each is behind: an upper bound, for unread events may not be for it.
-- One without a timer has nothing left to send.
SELECT s.subscription_id,
       CASE WHEN s.paused_at IS NOT NULL THEN 'PAUSED' WHEN s.failures > 0 THEN 'RETRYING'
            ELSE 'ACTIVE' END AS status,
       s.destination, s.types, s.accounts, s.position,
       CASE WHEN NOT s.behind AND s.paused_at IS NULL THEN 0
            ELSE coalesce(s.sealed, 0) - s.position END AS lag_events,
       CASE WHEN s.behind OR s.paused_at IS NOT NULL
            THEN extract(epoch FROM clock() - seal_time($1, s.position + 1))::float8
            END AS lag_seconds,
       s.failures, s.error, s.retry_at, s.delivered_at, s.paused_at, s.paused_note, s.created_at
  FROM (SELECT s.*, p.position AS sealed, t.subject IS NOT NULL AS behind,
               CASE WHEN s.failures > 0 AND t.claimed_at IS NULL THEN t.due_at END AS retry_at
          FROM subscription s
          LEFT JOIN (SELECT * FROM chain c WHERE c.bucket = tenant_bucket($1) AND c.tenant_id = $1
                     OFFSET 0) AS p ON true
          LEFT JOIN timer t ON t.bucket = s.bucket AND t.subject = s.subscription_id
         WHERE s.tenant_id = $1 AND s.subscription_id > $2
           AND ($4::uuid IS NULL OR s.subscription_id = $4)
         ORDER BY s.subscription_id LIMIT $3) AS s
 ORDER BY s.subscription_id

-- name: subscription_lag
-- How far the subscriptions of all tenants are behind that have something to send.
SELECT count(*) FILTER (WHERE s.paused_at IS NOT NULL) AS paused,
       count(*) FILTER (WHERE s.failures > 0 AND s.paused_at IS NULL) AS failing,
       coalesce(max(p.position - s.position) FILTER (WHERE t.subject IS NOT NULL), 0) AS events
  FROM subscription s
  LEFT JOIN (SELECT tenant_id, position FROM chain OFFSET 0) AS p ON p.tenant_id = s.tenant_id
  LEFT JOIN timer t ON t.bucket = s.bucket AND t.subject = s.subscription_id
