-- Proofs about unique keys. Arguments as in prove.sql. The row of a key lies in a bucket of its
-- own, and is looked up by its key.

-- name: prove_unique_waiting_job_holds_its_key
-- A job that waits under a unique key and never began is named by the row of that key: another one
-- under it would wait beside it. A job that began before may have left the key to a newer one.
SELECT t.tenant_id, t.subject::text AS subject,
       format('it waits under the unique key %s, which names %s', j.unique_by ->> 'key',
              coalesce(u.job_id::text, 'no job')) AS detail
  FROM timer t
  JOIN job j ON j.bucket = t.bucket AND j.tenant_id = t.tenant_id AND j.job_id = t.subject
       AND j.unique_by IS NOT NULL
 CROSS JOIN LATERAL (
       SELECT job_unique_hash(t.tenant_id, j.unique_by ->> 'key') AS hash OFFSET 0) AS k
  LEFT JOIN LATERAL (
       SELECT n.job_id FROM job_unique n
        WHERE n.bucket = job_unique_bucket(k.hash) AND n.tenant_id = t.tenant_id
          AND n.key = k.hash OFFSET 0) AS u ON true
 WHERE t.lane_id >= 16 AND ($1::integer IS NULL OR t.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR t.bucket = ANY ($2)) AND $4::uuid < $5::uuid
   AND t.claimed_at IS NULL AND t.due_at < 'infinity'
   AND (u.job_id IS NULL OR (u.job_id <> t.subject AND t.token = 0 AND t.attempt = 0))
 ORDER BY t.subject LIMIT $3

-- name: prove_unique_key_names_its_job
-- The row of a unique key names a job that is there, and that was accepted under this key.
SELECT u.tenant_id, u.key::text AS subject,
       format('the row of a unique key names %s', CASE
              WHEN u.job_id IS NULL THEN 'no job' WHEN j.job_id IS NULL THEN 'a job that is gone'
              ELSE 'a job that is not under this key' END) AS detail
  FROM job_unique u
  LEFT JOIN LATERAL (
       SELECT k.job_id, k.unique_by FROM job k
        WHERE k.bucket = bucket_of(u.job_id) AND k.tenant_id = u.tenant_id
          AND k.job_id = u.job_id OFFSET 0) AS j ON true
 WHERE ($1::integer IS NULL OR u.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR u.bucket = ANY ($2)) AND $4::uuid < $5::uuid
   AND (u.job_id IS NULL OR (j.job_id IS NULL AND u.job_id >= $4)
        OR (j.job_id IS NOT NULL
            AND job_unique_hash(u.tenant_id, j.unique_by ->> 'key') IS DISTINCT FROM u.key))
 ORDER BY u.tenant_id, u.key LIMIT $3
