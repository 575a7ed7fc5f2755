-- What keeps statements of ours from a table: locks of others, missing rights, a read-only server.
-- Only the catalog is read, as the login itself: no lock on a table of ours delays the answer.

-- name: obstacle_list
-- A lock that is only waited for counts as well: later requests wait behind it.
SELECT 'read_only' AS kind, '' AS subject, '' AS detail, 0 AS pid
 WHERE pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean
UNION ALL
SELECT 'denied', w.name, w.role || ' ' || w.privilege, 0
  FROM unnest($1::text[], $2::text[], $3::text[]) AS w (role, name, privilege)
  JOIN pg_class c ON c.relname = w.name
  JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = $4
 WHERE NOT (has_table_privilege(w.role::name, c.oid, w.privilege)
            AND has_schema_privilege(w.role::name, n.oid, 'USAGE'))
UNION ALL
-- A lock on an index or a partition counts for its table.
SELECT DISTINCT 'lock', t.relname::text, l.mode, coalesce(l.pid, 0)
  FROM pg_locks l
  JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
  LEFT JOIN pg_index i ON i.indexrelid = l.relation
  JOIN pg_class t ON t.oid = coalesce(pg_partition_root(coalesce(i.indrelid, l.relation)),
                                      i.indrelid, l.relation)
  JOIN pg_namespace n ON n.oid = t.relnamespace AND n.nspname = $4
 WHERE l.pid <> pg_backend_pid() AND t.relkind IN ('r', 'p')
   AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
UNION ALL
-- Sessions that have had a lock between transactions of ours for seconds, and those waiting for
-- it. How old a transaction of another login is shows only to members of pg_read_all_stats.
(SELECT DISTINCT 'holder', c.relname::text,
        a.usename || coalesce(', session ' || waiting.pids || ' waits', ''), a.pid
   FROM pg_locks l
   JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
   JOIN pg_class c ON c.oid = l.relation AND c.relname IN ('halt_lock', 'named_lock')
   JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = $4
   JOIN pg_stat_activity a ON a.pid = l.pid
   JOIN pg_stat_activity mine ON mine.pid = pg_backend_pid()
  CROSS JOIN LATERAL (
        SELECT string_agg(w.pid::text, ', ' ORDER BY w.pid) AS pids
          FROM (SELECT DISTINCT pid FROM pg_locks WHERE NOT granted LIMIT 20) AS w
         WHERE a.pid = ANY (pg_blocking_pids(w.pid))) AS waiting
  WHERE l.granted AND a.xact_start < mine.query_start - interval '2 seconds' LIMIT 5)

-- name: obstacle_waits_for
SELECT wait_event_type, wait_event FROM pg_stat_activity WHERE pid = $1

-- name: obstacle_session_waits_for
SELECT wait_event_type, wait_event FROM pg_stat_activity
 WHERE application_name = $1 AND datname = current_database() AND wait_event_type <> 'Client'

-- name: obstacle_take_room
-- About half a megabyte that nothing has held before: the caller rolls back.
CREATE TEMPORARY TABLE room AS SELECT md5(n::text) FROM generate_series(1, 8192) AS n
