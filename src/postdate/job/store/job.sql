-- Jobs: inserted as sets, read by exact keys.

-- name: job_look
-- The time, in the first row; then what is known under the keys.
SELECT NULL::smallint AS bucket, NULL::smallint AS scope, NULL::integer AS tenant_id,
       NULL::uuid AS key, NULL::uuid AS fingerprint, NULL::uuid AS subject, clock() AS created_at,
       NULL::bytea AS kept
 UNION ALL
SELECT bucket, scope, tenant_id, key, fingerprint, subject, created_at, kept
  FROM idempotency_find($1, $2, $3, $4)

-- name: job_as_accepted
SELECT lane_id, due_at, expires_at, destination::text, policy::text, payload, content_type,
       payload_ref, spread_seconds, metadata, description, unique_by::text, key
  FROM job WHERE bucket = $1 AND tenant_id = $2 AND job_id = $3

-- name: job_load
-- Weeks outside of the ids' range ($4 to $5) are not even begun.
SELECT j.job_id, j.effective_at, j.expires_at, j.policy::text
  FROM unnest($1::smallint[], $2::integer[], $3::uuid[]) AS wanted (bucket, tenant_id, job_id)
  JOIN job j ON j.bucket = coalesce(wanted.bucket, ($1::smallint[])[1])
            AND j.tenant_id = coalesce(wanted.tenant_id, ($2::integer[])[1])
            AND j.job_id = wanted.job_id AND j.job_id BETWEEN $4 AND $5

-- name: job_load_revised
-- Jobs changed before execution: few, so the ordinary load need not read revisions.
SELECT j.job_id, r.effective_at, r.expires_at, r.policy::text,
       CASE r.payload_revision WHEN 0 THEN j.payload ELSE p.payload END,
       CASE r.payload_revision WHEN 0 THEN j.content_type ELSE p.content_type END,
       CASE r.payload_revision WHEN 0 THEN j.payload_ref ELSE p.payload_ref END
  FROM unnest($1::smallint[], $2::integer[], $3::uuid[], $4::integer[])
       AS wanted (bucket, tenant_id, job_id, revision)
  JOIN job j USING (bucket, tenant_id, job_id)
  JOIN job_revision r ON r.bucket = j.bucket AND r.job_id = j.job_id
                     AND r.revision = wanted.revision
  LEFT JOIN job_revision p ON p.bucket = j.bucket AND p.job_id = j.job_id
                          AND p.revision = r.payload_revision
