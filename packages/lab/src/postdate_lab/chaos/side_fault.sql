-- What the faults beside the transaction path ask of the run's own database.

-- name: side_fault_tables
SELECT relname FROM pg_class
 WHERE relnamespace = 'postdate'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
 ORDER BY relname

-- name: side_fault_rights
SELECT privilege_type FROM information_schema.role_table_grants
 WHERE table_schema = 'postdate' AND table_name = $1 AND grantee = $2
   AND privilege_type IN ('INSERT', 'UPDATE', 'DELETE')

-- name: side_fault_notify
SELECT count(pg_notify('guest', n::text)) FROM generate_series(1, $1::integer) AS n

-- name: side_fault_compute
SELECT count(*) FROM generate_series(1, 30000000)

-- name: side_fault_enqueue
SELECT postdate.enqueue('{"type": "worker"}', lane => 'pulled', delay_seconds => 1)
