-- Keys of requests. Columns of one value come as that value, as store/column.py says.

-- name: idempotency_find
SELECT bucket, scope, tenant_id, key, fingerprint, subject, created_at, kept
  FROM idempotency_find($1, $2, $3, $4)
