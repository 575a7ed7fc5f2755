-- Partitions of history.

-- name: partition_create_ahead
SELECT made, blocked FROM partition_create_ahead($1)

-- name: partition_list_misplaced
SELECT parent, monday, strays FROM partition_list_misplaced()

-- name: partition_patience
-- A week of a busy table may take minutes to be moved.
SET LOCAL statement_timeout = '10min'

-- name: partition_move_misplaced
SELECT partition_move_misplaced($1, $2)

-- name: partition_weeks_ahead
-- The weeks that the shortest table is made ahead, from the names of the partitions.
SELECT min(weeks)::integer FROM (
    SELECT p.partrelid, floor(extract(epoch FROM max(to_timestamp(right(c.relname, 8), 'YYYYMMDD'))
                              - clock()) / 604800) AS weeks
      FROM pg_partitioned_table p
      JOIN pg_inherits i ON i.inhparent = p.partrelid
      JOIN pg_class c ON c.oid = i.inhrelid AND c.relname ~ '_\d{8}$'
     WHERE c.relnamespace = current_schema()::regnamespace
     GROUP BY p.partrelid) AS lead
