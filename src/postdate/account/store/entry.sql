-- Entries: the two sides of transfers, each with the balance and version of its account after it.
-- Each query calls one function and reads nothing beside it: a sharded PostgreSQL runs it where it
-- is asked, and not beside the rows of a shard, from where it could ask no other.

-- name: entry_statement
SELECT stood_version, stood_balance, currency, account_id, version, transfer_id, amount, balance,
       type, payment_id, reason, created_at
  FROM account_statement($1, $2, $3, $4, $5, $6)

-- name: entry_between
-- The entries of a statement, the oldest first: those after one version, up to another.
SELECT e.account_id, e.version, e.transfer_id, e.amount, e.balance, e.type, e.payment_id, e.reason,
       e.created_at
  FROM account_entries($1, $2, $3, $4, $5, NULL) AS e
 ORDER BY e.version

-- name: entry_at
SELECT version, balance, currency FROM account_at($1, $2, $3, $4)
