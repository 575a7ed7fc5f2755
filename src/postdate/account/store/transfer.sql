-- Transfers: money that moved from one account to another, with where both stand after it.

-- name: transfer_insert
INSERT INTO transfer (bucket, to_bucket, tenant_id, transfer_id, amount, from_account, from_balance,
                      from_version, to_account, to_balance, to_version, payment_id, reason)
SELECT * FROM unnest($1::smallint[], $2::smallint[], $3::integer[], $4::uuid[], $5::bigint[],
                     $6::text[], $7::bigint[], $8::bigint[], $9::text[], $10::bigint[],
                     $11::bigint[], $12::uuid[], $13::text[])

-- name: transfer_of_payment
-- By its key, which payment and outcome have.
SELECT t.bucket, t.to_bucket, t.tenant_id, t.transfer_id, t.amount, t.from_account, t.from_balance,
       t.from_version, t.to_account, t.to_balance, t.to_version, t.payment_id, t.reason,
       t.created_at
  FROM outcome o
  JOIN transfer t ON t.bucket = o.bucket AND t.tenant_id = o.tenant_id AND t.from_account = $4
       AND t.from_version = o.from_version AND t.transfer_id = o.transfer_id
 WHERE o.bucket = $1 AND o.tenant_id = $2 AND o.subject = $3
