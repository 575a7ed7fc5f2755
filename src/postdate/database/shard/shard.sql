-- Shards: the schema on a Citus cluster. Asked of the coordinator, by the owner or by an
-- administrator.

-- name: shard_extension
-- The version of Citus in this database.
SELECT extversion FROM pg_extension WHERE extname = 'citus'

-- name: shard_is_coordinator
-- Whether this is the node from which tables are made and changed.
SELECT citus_is_coordinator()

-- name: shard_is_spread
-- Whether the schema is distributed: by then Citus plans every statement about the timers.
SELECT EXISTS (SELECT FROM pg_dist_partition
                WHERE logicalrelid = to_regclass('postdate.timer'))

-- name: shard_tables
-- What is not yet known to Citus, and what it is to become. A table with an index that begins with
-- the bucket is distributed by it; any other is a reference table, of which each node has a copy.
-- Partitions follow their parents. Those tables stay on the coordinator that only it asks for.
SELECT c.relname::text AS name,
       EXISTS (SELECT FROM pg_index i JOIN pg_attribute a
                   ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                WHERE i.indrelid = c.oid AND a.attname = 'bucket') AS by_bucket
  FROM pg_class c
 WHERE c.relnamespace = 'postdate'::regnamespace AND c.relkind IN ('r', 'p')
   AND NOT c.relispartition AND c.relname <> ALL ($1::text[])
   AND NOT EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = c.oid)
   AND NOT relation_is_a_known_shard(c.oid)
 ORDER BY by_bucket, c.relname

-- name: shard_references
-- Foreign keys between tables of which Citus does not know both.
SELECT f.conrelid::regclass::text AS name, f.conname::text AS constraint,
       pg_get_constraintdef(f.oid) AS definition
  FROM pg_constraint f
 WHERE f.connamespace = 'postdate'::regnamespace AND f.contype = 'f' AND f.conparentid = 0
   AND NOT EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = f.conrelid)
   AND NOT relation_is_a_known_shard(f.conrelid)
 ORDER BY f.oid

-- name: shard_identities
-- Identity columns of plain integers, and their sequences: Citus wants a default in their place.
SELECT c.relname::text AS name, a.attname::text AS column,
       pg_get_serial_sequence(c.oid::regclass::text, a.attname) AS sequence
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
 WHERE c.relnamespace = 'postdate'::regnamespace AND a.attidentity <> ''
   AND c.relname <> ALL ($1::text[])

-- name: shard_functions
-- Functions that the other nodes do not know yet, but for those of tables that they do not know.
SELECT p.oid::regprocedure::text AS signature FROM pg_proc p
 WHERE p.pronamespace = 'postdate'::regnamespace AND p.prokind = 'f'
   AND NOT EXISTS (SELECT FROM pg_depend d JOIN pg_class c ON c.reltype = d.refobjid
                    WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
                      AND d.refclassid = 'pg_type'::regclass AND c.relname = ANY ($1::text[]))
   AND NOT EXISTS (SELECT FROM pg_dist_object o
                    WHERE o.classid = 'pg_proc'::regclass AND o.objid = p.oid)
 ORDER BY p.oid

-- name: shard_inlined
-- Functions in SQL, by the text that made them, whether they return rows or nothing, and the body.
SELECT p.proname::text AS name, pg_get_functiondef(p.oid) AS definition, p.prosrc AS body,
       p.proretset AS many,
       p.prorettype = 'void'::regtype AS nothing
  FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
 WHERE p.pronamespace = 'postdate'::regnamespace AND l.lanname = 'sql' AND p.prosqlbody IS NULL
 ORDER BY p.proname

-- name: shard_alone
-- One migrator at a time.
LOCK TABLE postdate.migration IN SHARE ROW EXCLUSIVE MODE

-- name: shard_locks
-- Each node has its own tables to lock; by now it knows the function that makes them.
SELECT success, result FROM run_command_on_workers('SELECT postdate.lock_tables_ensure()')

-- name: shard_known_tables
SELECT c.relname::text FROM pg_dist_partition d JOIN pg_class c ON c.oid = d.logicalrelid
 WHERE c.relnamespace = 'postdate'::regnamespace AND NOT c.relispartition

-- name: shard_views
SELECT viewname::text AS name, definition FROM pg_views WHERE schemaname = 'postdate'

-- name: shard_unkeyed
-- Distributed tables without a primary key.
SELECT d.logicalrelid::text AS name FROM pg_dist_partition d JOIN pg_class c
    ON c.oid = d.logicalrelid
 WHERE c.relnamespace = 'postdate'::regnamespace AND d.partmethod = 'h' AND c.relreplident <> 'f'
   AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)

-- name: shard_owners
-- Which database node holds a bucket: asked of any node, for each knows where all shards are.
SELECT bucket::integer, n.groupid, n.nodename, n.nodeport
  FROM generate_series(0, 63) AS bucket
  JOIN pg_dist_shard s ON s.logicalrelid = 'postdate.timer'::regclass
       AND worker_hash(bucket::smallint)
           BETWEEN s.shardminvalue::integer AND s.shardmaxvalue::integer
  JOIN pg_dist_placement p ON p.shardid = s.shardid
  JOIN pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary'

-- name: shard_admit_to_commits
-- Let the owner lock the table in which Citus writes commits down (`shard_hold_commits`): Citus
-- admits to that who may change it.
SELECT run_command_on_all_nodes(
       'GRANT UPDATE ON pg_catalog.pg_dist_transaction TO postdate_owner')

-- name: shard_wait_briefly
-- Others wait behind a lock that is waited for: not for longer than a halt makes them wait.
SET LOCAL lock_timeout = '1s'

-- name: shard_hold_commits
SELECT shard_hold_commits()

-- name: shard_hold_commits_there
-- At each node that holds shards, within the transaction that Citus has there for ours; one that
-- holds several is asked for each.
SELECT sum(shard_hold_commits())::bigint FROM outbox_lock
