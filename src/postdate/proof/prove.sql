-- Proofs: each gives what contradicts it as (tenant_id, subject, detail), the first ones of many.
-- $1 is a tenant or NULL for all, $2 the buckets or NULL for all, $3 how many to give. Facts are
-- read whose ids are from $4 on and below $5; $4 is never below the first id that no detached
-- part of the history can hold. A proof that asks for buckets finds in them all that it finds
-- without: it looks up by key what belongs to a fact and lies in another bucket.

-- name: prove_begin
-- One snapshot for all proofs. The hot path forbids what is right for reading everything.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: prove_begin_gathered
-- The same where a proof first copies what it reads.
BEGIN ISOLATION LEVEL REPEATABLE READ

-- name: prove_freely
SET LOCAL enable_seqscan = on;
SET LOCAL enable_bitmapscan = on;
SET LOCAL plan_cache_mode = force_custom_plan;
SET LOCAL work_mem = '64MB'

-- name: prove_ledger_sums_to_zero
SELECT tenant_id, tenant_id::text AS subject,
       format('its balances sum to %s', sum(balance)) AS detail
  FROM account
 WHERE ($1::integer IS NULL OR tenant_id = $1) AND $2::smallint[] IS NULL
   AND $4::uuid < $5::uuid
 GROUP BY tenant_id HAVING sum(balance) <> 0 ORDER BY tenant_id LIMIT $3

-- name: prove_versions_have_no_gaps
-- Each entry continues the one before it, or a recorded repair says by how much it does not; the
-- first one begins at nothing, unless its past was detached. Of each account the entries in
-- question are read, and what lies between them and the one before.
WITH looked AS (
    SELECT bucket, tenant_id, account_id, min(version) AS first, max(version) AS last
      FROM entry
     WHERE ($1::integer IS NULL OR tenant_id = $1)
       AND ($2::smallint[] IS NULL OR bucket = ANY ($2))
       AND transfer_id >= $4::uuid AND transfer_id < $5::uuid
     GROUP BY bucket, tenant_id, account_id)
SELECT tenant_id, account_id AS subject,
       format('version %s with balance %s follows version %s with balance %s by an amount of %s',
              version, balance, coalesce(version_before, 0), coalesce(balance_before, 0), amount)
       AS detail
  FROM (SELECT e.bucket, e.tenant_id, e.account_id, e.version, e.balance, e.amount, l.first,
               lag(e.version) OVER account_order AS version_before,
               lag(e.balance) OVER account_order AS balance_before
          FROM looked l JOIN entry e USING (bucket, tenant_id, account_id)
         WHERE e.version BETWEEN l.first - 1 AND l.last
        WINDOW account_order AS (PARTITION BY e.bucket, e.tenant_id, e.account_id
                                 ORDER BY e.version)
       ) AS e
 WHERE version >= first AND CASE WHEN version_before IS NULL
            THEN version <> 1 AND $4 = uuid_floor('epoch') OR version = 1 AND balance <> amount
            ELSE version <> version_before + 1 OR (balance <> balance_before::numeric + amount
                 AND NOT EXISTS (
                     SELECT FROM account_repair r
                      WHERE r.bucket = e.bucket AND r.tenant_id = e.tenant_id
                        AND r.account_id = e.account_id
                        AND r.jumps @> jsonb_build_array(jsonb_build_object(
                            'version', e.version,
                            'difference', e.balance::numeric - e.amount - e.balance_before)))) END
 ORDER BY tenant_id, account_id, version LIMIT $3

-- name: prove_balance_is_its_entries
SELECT coalesce(a.tenant_id, e.tenant_id) AS tenant_id,
       coalesce(a.account_id, e.account_id) AS subject,
       format('balance %s at version %s, but its entries end with %s at version %s',
              a.balance, a.version, e.balance, e.version) AS detail
  FROM (SELECT * FROM account
         WHERE ($1::integer IS NULL OR tenant_id = $1)
           AND ($2::smallint[] IS NULL OR bucket = ANY ($2))) AS a
  FULL JOIN (
       SELECT DISTINCT ON (bucket, tenant_id, account_id)
              bucket, tenant_id, account_id, version, balance
         FROM entry
        WHERE ($1::integer IS NULL OR tenant_id = $1)
          AND ($2::smallint[] IS NULL OR bucket = ANY ($2)) AND $4::uuid < $5::uuid
        ORDER BY bucket, tenant_id, account_id, version DESC) AS e
       USING (bucket, tenant_id, account_id)
 WHERE (a.balance IS DISTINCT FROM e.balance OR a.version IS DISTINCT FROM e.version)
   AND NOT (e.version IS NULL
            AND (a.version = 0 AND a.balance = 0 OR $4 > uuid_floor('epoch')))
   AND NOT EXISTS (SELECT FROM account_repair r
                    WHERE r.bucket = a.bucket AND r.tenant_id = a.tenant_id
                      AND r.account_id = a.account_id AND r.version = e.version
                      AND (r.version, r.balance) = (a.version, a.balance))
 ORDER BY 1, 2 LIMIT $3

-- name: prove_balance_follows_entries
-- For some buckets, from what is proved of each account on: its entries since then lead to its
-- balance and version. Only accounts that differ from what is proved are read.
SELECT tenant_id, account_id AS subject,
       format('balance %s at version %s, but from %s at version %s its %s entries lead to %s',
              balance, version, start, from_version, entries, start + amounts) AS detail
  FROM account_since_proof($1, $2, $4)
 WHERE $5::uuid IS NOT NULL
   AND (version <> from_version + entries OR balance <> start + amounts)
 ORDER BY tenant_id, account_id LIMIT $3

-- name: prove_account_proved
-- Remember how far the accounts of some buckets are proved: those whose entries lead to their
-- balance.
INSERT INTO account_proof AS known (bucket, tenant_id, account_id, version, balance)
SELECT bucket, tenant_id, account_id, version, balance
  FROM account_since_proof(NULL, $1, $2)
 WHERE version = from_version + entries AND balance = start + amounts
ON CONFLICT (bucket, tenant_id, account_id) DO UPDATE
   SET version = excluded.version, balance = excluded.balance

-- name: prove_held_is_open_payments
SELECT a.tenant_id, a.account_id AS subject,
       format('%s is held, but its open payments hold %s', a.held, coalesce(p.held, 0)) AS detail
  FROM account a
  LEFT JOIN (
       SELECT p.bucket, p.tenant_id, p.from_account AS account_id, sum(p.amount) AS held
         FROM timer t JOIN payment p ON p.bucket = t.bucket AND p.tenant_id = t.tenant_id
              AND p.payment_id = t.subject
        WHERE t.lane_id < 16 AND lane_purpose(t.lane_id) IN (0, 3, 4) AND p.hold
          AND ($2::smallint[] IS NULL OR t.bucket = ANY ($2))
          AND ($1::integer IS NULL OR t.tenant_id = $1)
        GROUP BY 1, 2, 3) AS p USING (bucket, tenant_id, account_id)
 WHERE ($1::integer IS NULL OR a.tenant_id = $1) AND ($2 IS NULL OR a.bucket = ANY ($2))
   AND $4::uuid < $5::uuid AND a.held <> coalesce(p.held, 0)
 ORDER BY a.tenant_id, a.account_id LIMIT $3

-- name: prove_payment_is_open_or_ended
SELECT p.tenant_id, p.payment_id::text AS subject,
       CASE WHEN t.subject IS NULL THEN 'it has neither a timer nor an outcome'
            WHEN o.subject IS NULL THEN format('its timer lies in lane %s, where nobody settles',
                                               t.lane_id)
            ELSE 'it has a timer and an outcome' END AS detail
  FROM payment p
  LEFT JOIN timer t ON t.bucket = p.bucket AND t.subject = p.payment_id
  LEFT JOIN outcome o ON o.bucket = p.bucket AND o.subject = p.payment_id
 WHERE ($1::integer IS NULL OR p.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR p.bucket = ANY ($2))
   AND p.payment_id >= $4::uuid AND p.payment_id < $5::uuid
   AND ((t.subject IS NULL) = (o.subject IS NULL) OR lane_purpose(t.lane_id) NOT IN (0, 3, 4))
 ORDER BY p.payment_id LIMIT $3

-- name: prove_timer_has_payment
SELECT t.tenant_id, t.subject::text AS subject, 'a timer without its payment' AS detail
  FROM timer t
  LEFT JOIN payment p ON p.bucket = t.bucket AND p.tenant_id = t.tenant_id
       AND p.payment_id = t.subject
 WHERE t.lane_id < 16 AND lane_purpose(t.lane_id) IN (0, 3, 4)
   AND ($1::integer IS NULL OR t.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR t.bucket = ANY ($2)) AND $4::uuid < $5::uuid
   AND p.payment_id IS NULL
 ORDER BY t.subject LIMIT $3

-- name: prove_payment_moved_once
-- A completed payment has its transfer, which its outcome names by the payer's version. That it has
-- no other, and that no other payment has any, is what transfer_has_payment proves.
SELECT p.tenant_id, p.payment_id::text AS subject,
       format('completed in transfer %s, which %s; the payment says %s to %s at version %s',
              o.transfer_id, coalesce(format('moved %s to %s at version %s', t.amount, t.to_account,
                                             t.to_version), 'is not there'),
              p.amount, p.to_account, o.to_version) AS detail
  FROM payment p
  JOIN outcome o ON o.bucket = p.bucket AND o.subject = p.payment_id AND o.status = 'COMPLETED'
  LEFT JOIN LATERAL (
       SELECT t.* FROM transfer t
        WHERE t.bucket = p.bucket AND t.tenant_id = p.tenant_id AND t.from_account = p.from_account
          AND t.from_version = o.from_version AND t.transfer_id = o.transfer_id
          AND t.payment_id = p.payment_id OFFSET 0) AS t ON true
 WHERE ($1::integer IS NULL OR p.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR p.bucket = ANY ($2))
   AND p.payment_id >= $4::uuid AND p.payment_id < $5::uuid
   AND (t.amount, t.to_bucket, t.to_account, t.to_version)
       IS DISTINCT FROM (p.amount, p.to_bucket, p.to_account, o.to_version)
 ORDER BY p.payment_id LIMIT $3

-- name: prove_payment_keeps_currency
-- Payer and payee count in one currency. An account that is not in the index has none.
SELECT p.tenant_id, p.payment_id::text AS subject,
       format('%s has %s, %s has %s', p.from_account, coalesce(payer.currency, 'no currency'),
              p.to_account, coalesce(payee.currency, 'no currency')) AS detail
  FROM payment p
  JOIN account payer ON payer.bucket = p.bucket AND payer.tenant_id = p.tenant_id
       AND payer.account_id = p.from_account
  LEFT JOIN LATERAL (
       SELECT a.currency FROM account a
        WHERE a.tenant_id = p.tenant_id AND a.account_id = p.to_account
          AND a.currency IS NOT NULL OFFSET 0) AS payee ON true
 WHERE ($1::integer IS NULL OR p.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR p.bucket = ANY ($2))
   AND p.payment_id >= $4::uuid AND p.payment_id < $5::uuid
   AND payer.currency IS DISTINCT FROM payee.currency
 ORDER BY p.payment_id LIMIT $3

-- name: prove_refund_is_of_what_was_paid
-- A refund pays a completed payment back, from its payee to its payer, and all refunds together no
-- more than was paid.
SELECT p.tenant_id, p.payment_id::text AS subject,
       format('the refunds of %s come to more than the %s that were paid', p.refund_of,
              coalesce(paid.amount, 0)) AS detail
  FROM payment p
  LEFT JOIN LATERAL (
       SELECT o.amount FROM payment o
         JOIN outcome e ON e.bucket = o.bucket AND e.subject = o.payment_id
              AND e.status = 'COMPLETED'
        WHERE o.bucket = bucket_of(p.refund_of) AND o.tenant_id = p.tenant_id
          AND o.payment_id = p.refund_of AND o.refund_of IS NULL
          AND o.from_account = p.to_account AND o.to_account = p.from_account OFFSET 0) AS paid
       ON true
 WHERE ($1::integer IS NULL OR p.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR p.bucket = ANY ($2))
   AND p.payment_id >= $4::uuid AND p.payment_id < $5::uuid AND p.refund_of IS NOT NULL
   AND p.refund_of >= history_floor(ARRAY['payment', 'outcome'])
   AND (SELECT * FROM payment_refunded(p.bucket, p.tenant_id, p.refund_of,
                                       '00000000-0000-0000-0000-000000000000'))
       > coalesce(paid.amount, 0)
 ORDER BY p.payment_id LIMIT $3

-- name: prove_events_are_legal
-- Ended at most once, and as the outcome says, with its code and at its time; a payment is its own
-- beginning, and an outcome with a transfer its own end. Their order and their times are the
-- chain's to witness: see `postdate events verify`.
WITH own AS (
    SELECT tenant_id, bucket, subject, type, time, data ->> 'code' AS code
      FROM event
     WHERE type IN ('payment.failed', 'payment.cancelled')
       AND ($1::integer IS NULL OR tenant_id = $1)
       AND ($2::smallint[] IS NULL OR bucket = ANY ($2))
       AND subject >= $4::uuid AND subject < $5::uuid),
story AS (
    SELECT p.tenant_id, p.bucket, p.payment_id AS subject, count(own.type) AS endings,
           max(own.type) AS ending, max(own.time) AS at, max(own.code) AS code
      FROM payment p
      LEFT JOIN own ON own.bucket = p.bucket AND own.subject = p.payment_id
     WHERE ($1::integer IS NULL OR p.tenant_id = $1)
       AND ($2::smallint[] IS NULL OR p.bucket = ANY ($2))
       AND p.payment_id >= $4 AND p.payment_id < $5
     GROUP BY p.tenant_id, p.bucket, p.payment_id)
SELECT s.tenant_id, s.subject::text AS subject,
       format('ended %s times (%s %s), its outcome is %s %s of %s', endings,
              coalesce(ending, 'open'), s.code, coalesce(o.status, 'none'), o.code,
              instant_text(o.finished_at)) AS detail
  FROM story s LEFT JOIN outcome o ON o.bucket = s.bucket AND o.subject = s.subject
 WHERE endings > 1
    OR ending IS DISTINCT FROM
       CASE WHEN o.transfer_id IS NULL THEN 'payment.' || lower(o.status) END
    OR (endings = 1 AND (o.code IS DISTINCT FROM s.code
        OR o.finished_at NOT BETWEEN s.at - interval '5 minutes' AND s.at + interval '5 minutes'))
 ORDER BY s.subject LIMIT $3

-- name: prove_overdue
-- Not a contradiction, but work that waits: due longer ago than $4 seconds and not parked.
SELECT tenant_id, subject::text AS subject,
       format('due %s s ago', round(extract(epoch FROM clock() - due_at))) AS detail
  FROM timer
 WHERE lane_id = 0 AND bucket = ANY ($2::smallint[])
   AND due_at < clock() - make_interval(secs => $4::float8)
   AND ($1::integer IS NULL OR tenant_id = $1)
 ORDER BY due_at LIMIT $3

-- name: prove_parked
SELECT tenant_id, subject::text AS subject, 'waits for a person' AS detail
  FROM timer
 WHERE lane_id = 0 AND bucket = ANY ($2::smallint[]) AND due_at = 'infinity'
   AND ($1::integer IS NULL OR tenant_id = $1)
 ORDER BY subject LIMIT $3

-- name: prove_client_rules
-- What `postdate migrate` wrote from the declarations of Python, as client_rules has it.
SELECT noun, schema::text FROM client_schema
 UNION ALL
SELECT name, jsonb_build_array(value, tenant_may, choices, zero_is_none)::text FROM setting_default

-- name: prove_functions
SELECT proname::text, array_agg(prosrc) FROM pg_proc
 WHERE pronamespace = current_schema()::regnamespace GROUP BY proname
