-- What only `postdate bench` asks: the bare minimum to compare with, and sums over what was done.

-- name: bench_delete
-- The least that must happen to a claimed timer: gone, by its key and token.
DELETE FROM timer t USING unnest($2::uuid[], $3::integer[]) AS done (subject, token)
 WHERE t.bucket = $1 AND t.subject = done.subject AND t.token = done.token

-- name: bench_fill
-- Timers due tomorrow and later, in the buckets of one lane.
INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
SELECT b.bucket, $2, $3, gen_random_uuid(), clock() + interval '1 day' + n * interval '1 ms'
  FROM unnest($1::smallint[]) AS b (bucket), generate_series(1, $4::integer) AS n

-- name: bench_lateness
-- Milliseconds from due to claimed, of a tenant's ended jobs.
SELECT count(*)::integer AS jobs,
       percentile_cont(ARRAY[0.5, 0.95, 0.99, 1.0]) WITHIN GROUP (
           ORDER BY extract(epoch FROM started_at - due_at)::float8 * 1000) AS late
  FROM outcome WHERE tenant_id = $1

-- name: bench_wal
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint
