-- Vital signs of the whole database: read every few seconds by every node that serves metrics, so
-- that each query walks the head of an index or reads statistics, and none counts a table.

-- name: vital_backlog
-- What is due but not done at each place, counted up to $4, from a low-water mark on, and what
-- waits there for a person.
SELECT bucket, lane_id, cardinality(late) AS overdue,
       extract(epoch FROM clock() - late[1])::float8 AS seconds, late[1] AS oldest,
       parked::integer AS parked
  FROM (SELECT place.bucket, wanted.lane_id,
               ARRAY(SELECT t.due_at FROM timer t
                      WHERE t.bucket = place.bucket AND t.lane_id = wanted.lane_id
                        AND t.due_at >= wanted.low AND t.due_at <= clock()
                      ORDER BY t.due_at LIMIT $4) AS late,
               (SELECT count(*) FROM (
                    SELECT 1 FROM timer t
                     WHERE t.bucket = place.bucket AND t.lane_id = wanted.lane_id
                       AND t.due_at = 'infinity' LIMIT $4) AS head) AS parked
          FROM outbox_lock AS place
          JOIN unnest($1::smallint[], $2::integer[], $3::timestamptz[])
               AS wanted (bucket, lane_id, low) ON wanted.bucket = place.bucket) AS found

-- name: vital_pending
-- What lies ahead at each place, from an instant on, counted up to $4, and how much of it is
-- claimed: leases end soon, so that they stand first.
SELECT bucket, lane_id, counts[1]::integer AS many, counts[2]::integer AS running
  FROM (SELECT place.bucket, wanted.lane_id,
               (SELECT ARRAY[count(*), count(ahead.claimed_at)] FROM (
                    SELECT t.claimed_at FROM timer t
                     WHERE t.bucket = place.bucket AND t.lane_id = wanted.lane_id
                       AND t.due_at > wanted.low AND t.due_at < 'infinity'
                     ORDER BY t.due_at LIMIT $4) AS ahead) AS counts
          FROM outbox_lock AS place
          JOIN unnest($1::smallint[], $2::integer[], $3::timestamptz[])
               AS wanted (bucket, lane_id, low) ON wanted.bucket = place.bucket) AS found

-- name: vital_pending_estimate
-- How many timers of these lanes the planner expects after an instant; nothing is read but its
-- statistics.
EXPLAIN (FORMAT JSON)
SELECT FROM timer t
 WHERE t.lane_id = ANY ($1::integer[]) AND t.due_at > $2 AND t.due_at < 'infinity'

-- name: vital_tenant
SELECT tenant_id, name FROM tenant WHERE tenant_id = ANY ($1::integer[])

-- name: vital_overdue_heads
-- The first timer of each place, where it has been due for longer than $4 seconds: what is claimed
-- first should long have moved. What belongs to a tenant that was halted owes nothing.
SELECT t.bucket, t.lane_id, t.tenant_id, t.subject, t.token,
       extract(epoch FROM clock() - t.due_at)::float8 AS seconds, t.due_at
  FROM (SELECT place.bucket,
               (SELECT t.subject FROM timer t
                 WHERE t.bucket = place.bucket AND t.lane_id = wanted.lane_id
                   AND t.due_at >= wanted.low AND t.due_at <= clock() - make_interval(secs => $4)
                   AND t.tenant_id <> ALL ((SELECT tenants_held())::integer[])
                 ORDER BY t.due_at LIMIT 1) AS subject
          FROM outbox_lock AS place
          JOIN unnest($1::smallint[], $2::integer[], $3::timestamptz[])
               AS wanted (bucket, lane_id, low) ON wanted.bucket = place.bucket) AS head
  JOIN timer t ON t.bucket = head.bucket AND t.subject = head.subject

-- name: vital_leased
-- The lane buckets among these with a live lease: reads the first $3 timers of the next minute.
SELECT DISTINCT bucket, lane_id
  FROM timer_walk($1, $2, ARRAY[clock()], 'ffffffff-ffff-ffff-ffff-ffffffffffff',
                  clock() + interval '1 minute', NULL, $3)
 WHERE claimed_at IS NOT NULL

-- name: vital_overlong_leases
-- Leases of one node that live longer than their handlers may: $5 seconds beyond the job's timeout
-- (its own, or the tenant's, $3). Renewing moves a lease into the next minute, so that the first $6
-- timers of that minute are read.
SELECT head.bucket, head.lane_id, head.tenant_id, head.subject, head.token,
       extract(epoch FROM clock() - head.claimed_at)::float8 AS seconds
  FROM timer_walk($1, $2, ARRAY[clock()], 'ffffffff-ffff-ffff-ffff-ffffffffffff',
                  clock() + interval '1 minute', NULL, $6) AS head
  LEFT JOIN job j ON j.bucket = head.bucket AND j.tenant_id = head.tenant_id
                 AND j.job_id = head.subject
 WHERE head.claimed_by = $4
   AND head.claimed_at < clock() - make_interval(secs => $5 +
           coalesce((j.policy ->> 'timeout_seconds')::float8, ($3::float8[])[head.place]))

-- name: vital_due_until
-- How much of each lane was due up to an instant, counted up to $4 a bucket.
SELECT lane_id, sum(many)::integer
  FROM (SELECT wanted.lane_id,
               (SELECT count(*) FROM (
                    SELECT 1 FROM timer t
                     WHERE t.bucket = place.bucket AND t.lane_id = wanted.lane_id
                       AND t.due_at <= $3 LIMIT $4) AS early) AS many
          FROM outbox_lock AS place
          JOIN unnest($1::smallint[], $2::integer[]) AS wanted (bucket, lane_id)
            ON wanted.bucket = place.bucket) AS head
 GROUP BY lane_id

-- name: vital_event
-- How long the oldest event that no seal holds yet has waited.
SELECT coalesce(max(extract(epoch FROM clock() - head.time)), 0)::float8
  FROM outbox_lock l CROSS JOIN LATERAL (
       SELECT o.time FROM outbox o WHERE o.bucket = l.bucket ORDER BY o.time LIMIT 1) AS head

-- name: vital_table
-- Dead and living rows of the tables that are changed in place; statistics, not counts.
SELECT s.relname AS name, s.n_dead_tup AS dead, s.n_live_tup AS live,
       pg_total_relation_size(s.relid) AS bytes,
       extract(epoch FROM clock() - greatest(s.last_vacuum, s.last_autovacuum))::float8 AS seconds
  FROM pg_stat_user_tables s
 WHERE s.schemaname = current_schema() AND s.relname = ANY ($1::text[])

-- name: vital_pin
-- Who keeps dead rows from being removed: the oldest snapshot of a session, a prepared transaction
-- or a replication slot. A session of another login shows only to members of pg_read_all_stats.
SELECT kind, name, login, seconds, xids FROM (
    SELECT CASE backend_type WHEN 'walsender' THEN 'standby' ELSE 'session' END AS kind,
           coalesce(nullif(application_name, ''), backend_type) || ' pid ' || pid AS name,
           coalesce(usename::text, '') AS login,
           extract(epoch FROM clock() - coalesce(xact_start, backend_start))::float8 AS seconds,
           age(backend_xmin) AS xids
      FROM pg_stat_activity
     WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
       AND backend_type <> 'autovacuum worker'
       AND (datname = current_database() OR datname IS NULL)
     UNION ALL
    SELECT 'prepared', gid, owner::text, extract(epoch FROM clock() - prepared)::float8,
           age(transaction)
      FROM pg_prepared_xacts WHERE database = current_database()
     UNION ALL
    SELECT 'slot', slot_name::text, '', NULL, age(coalesce(xmin, catalog_xmin))
      FROM pg_replication_slots WHERE coalesce(xmin, catalog_xmin) IS NOT NULL) AS pins
 ORDER BY xids DESC, seconds DESC NULLS LAST LIMIT 1

-- name: vital_standby
-- Each standby with its state, and how many bytes of WAL it has not replayed.
SELECT coalesce(nullif(application_name, ''), 'unnamed') AS name, coalesce(state, 'unknown'),
       coalesce(sync_state, 'unknown'),
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn), 0)::float8 AS bytes
  FROM pg_stat_replication WHERE NOT pg_is_in_recovery()

-- name: vital_slot
-- WAL that replication slots keep on the primary's disk, whether or not it is read.
SELECT slot_name::text, active,
       pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::float8 AS bytes
  FROM pg_replication_slots WHERE restart_lsn IS NOT NULL AND NOT pg_is_in_recovery()

-- name: vital_node
-- Live nodes by role.
SELECT role, count(*)::integer FROM node CROSS JOIN LATERAL unnest(roles) AS role
 WHERE seen_at > clock() - make_interval(secs => $1) GROUP BY role

-- name: vital_audit
-- When the books were last checked as a whole, and what that found.
SELECT name, extract(epoch FROM clock() - finished_at)::float8 AS seconds, findings FROM audit_run

-- name: vital_audited
INSERT INTO audit_run AS known (name, seconds, findings, finished_at) VALUES ($1, $2, $3, clock())
ON CONFLICT (name) DO UPDATE
   SET finished_at = excluded.finished_at, seconds = excluded.seconds, findings = excluded.findings
