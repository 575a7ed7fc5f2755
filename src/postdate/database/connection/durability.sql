-- What becomes of a commit that was acknowledged, as our own sessions are set up.

-- name: durability_read
-- Standbys are counted, not backups and not readers of logical changes. Without pg_read_all_stats
-- the state of a standby is not shown; then one counts that has a slot of its own.
SELECT current_setting('fsync')::boolean AS fsync,
       current_setting('full_page_writes')::boolean AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('synchronous_standby_names') AS synchronous_standby_names,
       (SELECT count(*) FROM pg_stat_replication r
          LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid
         WHERE NOT pg_is_in_recovery() AND coalesce(s.slot_type, 'physical') = 'physical'
           AND NOT coalesce(s.temporary, false)
           AND (r.state IN ('startup', 'catchup', 'streaming')
                OR (r.state IS NULL AND s.slot_name IS NOT NULL)))::integer AS standbys
