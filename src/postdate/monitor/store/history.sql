-- History: its weekly partitions, and what has been detached of them.

-- name: history_list
-- Rows are the planner's estimate, bytes are exact.
SELECT h.partition, h.parent, h.until, h.detached_at, h.dropped_at, h.rows,
       CASE WHEN h.oid IS NULL THEN 0 ELSE pg_total_relation_size(h.oid) END AS bytes
  FROM (SELECT p.partition, p.parent, p.until, NULL::timestamptz AS detached_at,
               NULL::timestamptz AS dropped_at, greatest(c.reltuples, 0)::bigint AS rows, p.oid
          FROM history_partition p JOIN pg_class c ON c.oid = p.oid
         UNION ALL
        SELECT d.partition, d.parent,
               to_timestamp(right(d.partition, 8), 'YYYYMMDD') + interval '7 days',
               d.detached_at, d.dropped_at, greatest(c.reltuples, 0)::bigint,
               to_regclass(d.partition)::oid
          FROM history d LEFT JOIN pg_class c ON c.oid = to_regclass(d.partition)) AS h
 ORDER BY h.parent, h.partition

-- name: history_list_older
-- What a retention of $2 days lets go of these tables.
SELECT partition FROM history_partition
 WHERE parent = ANY($1) AND until < clock() - make_interval(days => $2) ORDER BY partition

-- name: history_detach
SELECT history_detach($1, $2)

-- name: history_drop
SELECT history_drop($1)

-- name: history_floor
SELECT history_floor($1)

-- name: history_oldest_ms
-- When the oldest attached week begins; the present where there is none.
SELECT (extract(epoch FROM coalesce(min(monday), clock())) * 1000)::bigint FROM history_partition
