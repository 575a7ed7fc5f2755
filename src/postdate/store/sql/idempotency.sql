-- What was asked under a key, and what was answered.

-- name: idempotency_find
SELECT i.bucket, i.tenant_id, i.scope, i.key, i.subject, i.status, i.request, i.response
  FROM unnest($1::smallint[], $2::integer[], $3::text[], $4::text[])
       AS wanted (bucket, tenant_id, scope, key)
  JOIN idempotency i USING (bucket, tenant_id, scope, key)

-- name: idempotency_insert
INSERT INTO idempotency (bucket, tenant_id, scope, key, subject, status, request, response)
SELECT * FROM unnest($1::smallint[], $2::integer[], $3::text[], $4::text[], $5::uuid[],
                     $6::smallint[], $7::bytea[], $8::bytea[])
ON CONFLICT DO NOTHING
