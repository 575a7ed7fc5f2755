-- Accounts. A transaction locks the accounts that it changes first, in one order.

-- name: account_lock
SELECT bucket, tenant_id, account_id, balance, held, version, floor, max_amount, frozen_at,
       closed_at, currency
  FROM account_lock($1::smallint[], $2::integer[], $3::text[])

-- name: account_write
-- From locked rows only. Nothing indexed changes, so the update stays on its page (HOT).
UPDATE account a SET balance = new.balance, held = new.held, version = new.version,
       updated_at = clock()
  FROM unnest($1::smallint[], $2::integer[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
       AS new (bucket, tenant_id, account_id, balance, held, version)
 WHERE a.bucket = new.bucket AND a.tenant_id = new.tenant_id AND a.account_id = new.account_id

-- name: account_add
SELECT * FROM account_add($1, $2, $3, $4, $5, $6)

-- name: account_locked
SELECT bucket, tenant_id, account_id FROM account_locked($1, $2, $3)

-- name: account_create
INSERT INTO account (bucket, tenant_id, account_id, floor, max_amount, note, currency)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (bucket, tenant_id, account_id) DO NOTHING
RETURNING account_id, balance, held, balance - held AS available, version, floor, max_amount,
          created_at, updated_at, frozen_at, closed_at, note, currency

-- name: account_gather
SELECT * FROM account_gather($1, $2, $3, $4, $5, $6)

-- name: account_find
SELECT account_id, balance, held, balance - held AS available, version, floor, max_amount,
       created_at, updated_at, frozen_at, closed_at, note, currency
  FROM account WHERE bucket = $1 AND tenant_id = $2 AND account_id = $3

-- name: account_currencies
-- Of the accounts that name one; no account is ever given another.
SELECT a.account_id, a.currency
  FROM unnest($2::smallint[], $3::text[]) AS wanted (bucket, account_id)
  JOIN account a ON a.bucket = wanted.bucket AND a.tenant_id = $1
       AND a.account_id = wanted.account_id
 WHERE a.currency IS NOT NULL AND a.bucket = ANY ($2::smallint[])

-- name: account_totals
-- All accounts but the issuer, or those of $2, by currency.
SELECT a.currency, count(*)::integer AS accounts, sum(a.balance)::bigint AS balance,
       sum(a.held)::bigint AS held
  FROM account a
 WHERE a.tenant_id = $1 AND a.account_id <> 'issuer'
   AND ($2::text[] IS NULL OR a.account_id = ANY ($2::text[]))
 GROUP BY a.currency ORDER BY a.currency NULLS FIRST

-- name: account_list
-- Each bucket gives its first ones; their merge is the page.
SELECT a.* FROM outbox_lock AS buckets
 CROSS JOIN LATERAL (
       SELECT account_id, balance, held, balance - held AS available, version, floor, max_amount,
              created_at, updated_at, frozen_at, closed_at, note, currency
         FROM account
        WHERE account.bucket = buckets.bucket AND tenant_id = $1 AND account_id > $2
        ORDER BY account_id LIMIT $3) AS a
 ORDER BY a.account_id LIMIT $3

-- name: account_change
-- Of a locked row: everything about an account but its money.
UPDATE account SET floor = $4, max_amount = $5, note = $6, updated_at = clock(),
       frozen_at = CASE WHEN $7::boolean THEN coalesce(frozen_at, (SELECT clock())) END,
       closed_at = CASE WHEN $8::boolean THEN coalesce(closed_at, (SELECT clock())) END
 WHERE bucket = $1 AND tenant_id = $2 AND account_id = $3
RETURNING account_id, balance, held, balance - held AS available, version, floor, max_amount,
          created_at, updated_at, frozen_at, closed_at, note, currency
