-- Repairs of accounts: what entries and open payments say, and the fact that it was applied.

-- name: repair_read_entries
-- Of a locked account: its last version, where its entries begin, and what they add up to. A
-- settlement under way has not yet touched the account: it adds to what it finds after the repair.
SELECT coalesce(e.first_version, 1), coalesce(e.version, 0), e.entries, e.amounts,
       coalesce(first.start, 0)
  FROM (SELECT min(version) AS first_version, max(version) AS version, count(*) AS entries,
               coalesce(sum(amount), 0)::bigint AS amounts
          FROM account_entries($1, $2, $3, 0, 9223372036854775807, NULL)) AS e
  LEFT JOIN LATERAL (
       SELECT balance - amount AS start
         FROM account_entries($1, $2, $3, e.first_version - 1, e.first_version, 1)) AS first
       ON true

-- name: repair_read_held
-- What the open payments of a locked account hold.
SELECT coalesce(sum(p.amount), 0)::bigint
  FROM timer t JOIN payment p ON p.bucket = t.bucket AND p.tenant_id = t.tenant_id
       AND p.payment_id = t.subject
 WHERE t.bucket = $1 AND t.lane_id IN (0, 3, 4) AND t.tenant_id = $2
   AND p.from_account = $3 AND p.hold

-- name: repair_lost_payment
-- A payment of this account that has neither timer nor outcome: what it holds is not known.
SELECT p.payment_id FROM payment p
 WHERE p.bucket = $1 AND p.tenant_id = $2 AND p.from_account = $3 AND p.hold
   AND NOT EXISTS (SELECT FROM timer t WHERE t.bucket = $1 AND t.subject = p.payment_id)
   AND NOT EXISTS (SELECT FROM outcome o WHERE o.bucket = $1 AND o.subject = p.payment_id)
 LIMIT 1

-- name: repair_balance_jumps
-- The versions at which the running balance does not follow from the one before, and by how much.
SELECT version, balance - amount - balance_before AS difference
  FROM (SELECT version, amount, balance, lag(balance) OVER (ORDER BY version) AS balance_before
          FROM account_entries($1, $2, $3, 0, 9223372036854775807, NULL)) AS e
 WHERE balance - amount <> balance_before ORDER BY version

-- name: repair_list
-- The repairs of one account, the oldest first.
SELECT repaired_at, version, balance, held, version_before, balance_before, held_before,
       jumps::text, requested_by, approved_by, reason
  FROM account_repair WHERE bucket = $1 AND tenant_id = $2 AND account_id = $3
 ORDER BY repaired_at

-- name: repair_all
-- Every repair of a tenant, or of all, the newest first.
SELECT tenant_id, account_id, repaired_at, balance - balance_before AS balance,
       held - held_before AS held, version - version_before AS version, requested_by, approved_by,
       reason
  FROM account_repair WHERE $1::integer IS NULL OR tenant_id = $1
 ORDER BY repaired_at DESC LIMIT $2

-- name: repair_requested
-- What was asked for since the last repair, and by whom.
SELECT e.actor, e.data::text FROM event e
 WHERE e.bucket = $1 AND e.tenant_id = $2 AND e.subject = $3
   AND e.type = 'account.repair_requested' AND e.time > clock() - make_interval(secs => $4)
   AND NOT EXISTS (SELECT FROM account_repair r
                    WHERE r.bucket = $1 AND r.tenant_id = $2 AND r.account_id = $5
                      AND r.repaired_at >= e.time)
 ORDER BY e.time DESC LIMIT 1

-- name: repair_insert
INSERT INTO account_repair (bucket, tenant_id, account_id, version, balance, held, version_before,
                            balance_before, held_before, jumps, requested_by, approved_by, reason)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::jsonb, $11, $12, $13)
