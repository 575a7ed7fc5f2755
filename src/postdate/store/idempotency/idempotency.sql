-- What was asked under a key, and what was answered. Columns of one value come as that value, as
-- store/connection/column.py says.

-- name: idempotency_find
SELECT i.bucket, i.tenant_id, i.scope, i.key, i.subject, i.status, i.request, i.response
  FROM (SELECT unnest($1::smallint[]) AS bucket, unnest($2::integer[]) AS tenant_id,
               unnest($3::text[]) AS scope, unnest($4::text[]) AS key) AS wanted
  JOIN idempotency i ON i.bucket = wanted.bucket
   AND i.tenant_id = coalesce(wanted.tenant_id, ($2::integer[])[1])
   AND i.scope = coalesce(wanted.scope, ($3::text[])[1]) AND i.key = wanted.key

-- name: idempotency_insert
INSERT INTO idempotency (bucket, tenant_id, scope, key, subject, status, request, response)
SELECT bucket, coalesce(tenant_id, ($2::integer[])[1]), coalesce(scope, ($3::text[])[1]), key,
       subject, coalesce(status, ($6::smallint[])[1]), request, response
  FROM (SELECT unnest($1::smallint[]) AS bucket, unnest($2::integer[]) AS tenant_id,
               unnest($3::text[]) AS scope, unnest($4::text[]) AS key,
               unnest($5::uuid[]) AS subject, unnest($6::smallint[]) AS status,
               unnest($7::bytea[]) AS request, unnest($8::bytea[]) AS response) AS kept
ON CONFLICT DO NOTHING
