-- Proofs that what will happen follows from what was asked for. Arguments and answers as in
-- prove.sql: $1 tenant or NULL, $2 bucket or NULL, $3 how many, $4 the first id that is whole.

-- name: prove_terms_payment_timer_follows_terms
-- The timer of a payment stands at its instant, in the lane of what it waits for. It is moved by a
-- reschedule (an event), by a retry (an attempt), by a late approval, or set aside for a person.
SELECT t.tenant_id, t.subject::text AS subject,
       CASE WHEN wrong.lane THEN format('its timer lies in lane %s, its approval is %s', t.lane_id,
                                        coalesce(v.decision, 'waited for', 'not asked for'))
            ELSE format('its timer stands at %s, it was asked for at %s', instant_text(t.due_at),
                        instant_text(coalesce(m.due_at, p.due_at))) END AS detail
  FROM timer t
  JOIN payment p ON p.bucket = t.bucket AND p.tenant_id = t.tenant_id AND p.payment_id = t.subject
  LEFT JOIN payment_approval v ON v.bucket = t.bucket AND v.tenant_id = t.tenant_id
       AND v.payment_id = t.subject
  LEFT JOIN LATERAL (
       SELECT (e.data ->> 'scheduled_time')::timestamptz AS due_at, count(*) OVER () AS changes
         FROM event e
        WHERE e.bucket = t.bucket AND e.subject = t.subject AND e.type = 'payment.rescheduled'
        ORDER BY e.time DESC LIMIT 1) AS m ON true
  LEFT JOIN LATERAL (
       SELECT a.retry_at, true AS tried FROM attempt a
        WHERE a.bucket = t.bucket AND a.subject = t.subject AND t.token > 0
        ORDER BY a.attempt DESC LIMIT 1) AS a ON true
 CROSS JOIN LATERAL (
       SELECT (v.payment_id IS NOT NULL AND v.decision IS NULL) <> (t.lane_id = 3)
              OR (t.lane_id = 4 AND NOT EXISTS (SELECT FROM tenant_halt h
                                                 WHERE h.tenant_id = t.tenant_id)) AS lane,
              t.subject >= $4::uuid AND (t.revision <> coalesce(m.changes, 0) OR NOT coalesce(
                  t.due_at = coalesce(m.due_at, p.due_at) OR t.due_at = a.retry_at
                  OR (t.due_at = 'infinity' AND a.tried)
                  OR (v.decision = 'approved' AND t.due_at > coalesce(m.due_at, p.due_at)
                      AND t.due_at - v.decided_at
                          BETWEEN interval '-1 minute' AND interval '1 minute'), false))
              AS due) AS wrong
 WHERE t.lane_id IN (0, 3, 4) AND ($1::integer IS NULL OR t.tenant_id = $1)
   AND ($2::smallint IS NULL OR t.bucket = $2) AND (wrong.lane OR wrong.due)
 ORDER BY t.subject LIMIT $3

-- name: prove_terms_job_timer_follows_terms
-- The timer of a job lies in its lane and is due no earlier than its newest revision says; waits
-- for a breaker or a limit only make it later.
SELECT t.tenant_id, t.subject::text AS subject,
       format('its timer lies in lane %s at %s, revision %s, after %s attempts; asked for in lane '
              '%s at %s, with %s attempts written down', t.lane_id, instant_text(t.due_at),
              t.revision, t.attempt, j.lane_id,
              instant_text(coalesce(r.effective_at, j.effective_at)), a.attempts) AS detail
  FROM timer t
  JOIN job j ON j.bucket = t.bucket AND j.tenant_id = t.tenant_id AND j.job_id = t.subject
  LEFT JOIN LATERAL (
       SELECT r.revision, r.effective_at FROM job_revision r
        WHERE r.bucket = t.bucket AND r.job_id = t.subject
        ORDER BY r.revision DESC LIMIT 1) AS r ON true
 CROSS JOIN LATERAL (
       SELECT count(*) AS attempts FROM attempt a
        WHERE a.bucket = t.bucket AND a.subject = t.subject) AS a
 WHERE t.lane_id >= 16 AND ($1::integer IS NULL OR t.tenant_id = $1)
   AND ($2::smallint IS NULL OR t.bucket = $2)
   AND (t.lane_id <> j.lane_id OR t.revision <> coalesce(r.revision, 0)
        OR (t.attempt <> a.attempts AND t.subject >= $4::uuid)
        OR (t.claimed_at IS NULL AND t.due_at < coalesce(r.effective_at, j.effective_at))
        OR t.claimed_at < coalesce(r.effective_at, j.effective_at) - interval '1 minute')
 ORDER BY t.subject LIMIT $3

-- name: prove_terms_timer_has_job
SELECT t.tenant_id, t.subject::text AS subject, 'a timer without its job' AS detail
  FROM timer t
  LEFT JOIN job j ON j.bucket = t.bucket AND j.tenant_id = t.tenant_id AND j.job_id = t.subject
 WHERE t.lane_id >= 16 AND ($1::integer IS NULL OR t.tenant_id = $1)
   AND ($2::smallint IS NULL OR t.bucket = $2) AND $4::uuid IS NOT NULL AND j.job_id IS NULL
 ORDER BY t.subject LIMIT $3

-- name: prove_terms_job_is_open_or_ended
SELECT j.tenant_id, j.job_id::text AS subject,
       CASE WHEN t.subject IS NULL AND o.subject IS NULL
            THEN 'it has neither a timer nor an outcome'
            WHEN t.subject IS NULL THEN 'it counts as completed, but nobody completed it'
            ELSE 'it has a timer and an outcome' END AS detail
  FROM job j
  LEFT JOIN timer t ON t.bucket = j.bucket AND t.subject = j.job_id
  LEFT JOIN outcome o ON o.bucket = j.bucket AND o.subject = j.job_id
 WHERE ($1::integer IS NULL OR j.tenant_id = $1) AND ($2::smallint IS NULL OR j.bucket = $2)
   AND j.job_id >= $4::uuid AND ((t.subject IS NULL) = (o.subject IS NULL)
                                 OR (o.status = 'COMPLETED' AND o.actor IS NULL))
 ORDER BY j.job_id LIMIT $3

-- name: prove_terms_outcome_has_subject
SELECT o.tenant_id, o.subject::text AS subject, 'an outcome without its payment or job' AS detail
  FROM outcome o
  LEFT JOIN payment p ON p.bucket = o.bucket AND p.tenant_id = o.tenant_id
       AND p.payment_id = o.subject
  LEFT JOIN job j ON j.bucket = o.bucket AND j.tenant_id = o.tenant_id AND j.job_id = o.subject
 WHERE ($1::integer IS NULL OR o.tenant_id = $1) AND ($2::smallint IS NULL OR o.bucket = $2)
   AND o.subject >= $4::uuid AND p.payment_id IS NULL AND j.job_id IS NULL
 ORDER BY o.subject LIMIT $3

-- name: prove_terms_outcome_is_as_told
-- How a payment failed or was cancelled is what its sealed event says, of the same transaction: one
-- of ours takes no longer than the half minute that is allowed here.
SELECT o.tenant_id, o.subject::text AS subject,
       format('it ended at %s with %s (%s); told was %s at %s', instant_text(o.finished_at),
              coalesce(o.code, 'no code'), o.error, e.data, instant_text(e.time)) AS detail
  FROM outcome o
  JOIN event e ON e.bucket = o.bucket AND e.subject = o.subject AND e.tenant_id = o.tenant_id
       AND e.type = 'payment.' || lower(o.status)
 WHERE o.status <> 'COMPLETED' AND ($1::integer IS NULL OR o.tenant_id = $1)
   AND ($2::smallint IS NULL OR o.bucket = $2) AND o.subject >= $4::uuid
   AND ((o.code, o.error) IS DISTINCT FROM (e.data ->> 'code', e.data ->> 'error')
        OR o.finished_at NOT BETWEEN e.time - interval '30 s' AND e.time + interval '30 s')
 ORDER BY o.subject LIMIT $3

-- name: prove_terms_entry_has_payment
-- Every leg of a payment is what the payment and its outcome say, and of the same instant.
SELECT e.tenant_id, e.payment_id::text AS subject,
       format('%s has an entry of %s at %s in transfer %s; the payment says %s from %s to %s, '
              'settled at %s in transfer %s', e.account_id, e.amount, instant_text(e.created_at),
              e.transfer_id, p.amount, p.from_account, p.to_account, instant_text(o.finished_at),
              o.transfer_id) AS detail
  FROM entry e
  LEFT JOIN payment p ON p.bucket = bucket_of(e.payment_id) AND p.tenant_id = e.tenant_id
       AND p.payment_id = e.payment_id
  LEFT JOIN outcome o ON o.bucket = bucket_of(e.payment_id) AND o.tenant_id = e.tenant_id
       AND o.subject = e.payment_id
 WHERE e.type = 'PAYMENT' AND ($1::integer IS NULL OR e.tenant_id = $1)
   AND ($2::smallint IS NULL OR e.bucket = $2) AND e.payment_id >= $4::uuid
   AND (o.transfer_id, o.finished_at, abs(e.amount),
        CASE WHEN e.amount > 0 THEN p.to_account ELSE p.from_account END)
       IS DISTINCT FROM (e.transfer_id, e.created_at, p.amount, e.account_id)
 ORDER BY e.payment_id, e.amount LIMIT $3

-- name: prove_terms_idempotency_key_names_its_subject
-- What is kept under a client's key is about what it made: a payment, a job, an adjustment.
SELECT i.tenant_id, i.key AS subject,
       format('kept in %s for %s, which is not what was asked for under it', i.scope, i.subject)
       AS detail
  FROM (SELECT *, convert_from(request, 'UTF8')::jsonb AS asked,
               convert_from(response, 'UTF8')::jsonb AS answer
          FROM idempotency
         WHERE scope IN ('payment', 'job', 'adjustment') AND subject IS NOT NULL
           AND ($1::integer IS NULL OR tenant_id = $1) AND ($2::smallint IS NULL OR bucket = $2)
       ) AS i
  LEFT JOIN payment p ON i.scope = 'payment' AND p.bucket = bucket_of(i.subject)
       AND p.tenant_id = i.tenant_id AND p.payment_id = i.subject
  LEFT JOIN entry e ON i.scope = 'adjustment' AND e.bucket = bucket_of(i.subject)
       AND e.tenant_id = i.tenant_id AND e.account_id = i.answer ->> 'account_id'
       AND e.version = (i.answer ->> 'version')::bigint AND e.transfer_id = i.subject
 WHERE i.subject >= $4::uuid
   AND CASE i.scope
       WHEN 'payment' THEN
            (p.payment_id::text, p.amount::text, p.from_account, p.to_account) IS DISTINCT FROM
            (i.answer ->> 'payment_id', i.asked ->> 'amount', i.asked ->> 'from_account_id',
             i.asked ->> 'to_account_id')
       WHEN 'adjustment' THEN
            (e.transfer_id::text, e.amount::text, e.account_id, e.reason) IS DISTINCT FROM
            (i.answer ->> 'transfer_id', i.asked ->> 'amount', i.asked ->> 'account_id',
             i.asked ->> 'reason')
       ELSE i.subject::text IS DISTINCT FROM i.answer ->> 'job_id' END
 ORDER BY i.tenant_id, i.key LIMIT $3

-- name: prove_terms_payment_has_idempotency_key
-- Whoever asks for a payment brings a key, which is kept for ever: it must not be paid again.
SELECT p.tenant_id, p.payment_id::text AS subject,
       'the key it was asked for under is gone' AS detail
  FROM payment p
  LEFT JOIN idempotency i ON i.tenant_id = p.tenant_id AND i.scope = 'payment'
       AND i.subject = p.payment_id
 WHERE ($1::integer IS NULL OR p.tenant_id = $1) AND $2::smallint IS NULL
   AND p.payment_id >= $4::uuid AND p.schedule_id IS NULL AND i.subject IS NULL
 ORDER BY p.payment_id LIMIT $3

-- name: prove_terms_adjustment_is_as_told
-- Both legs of an adjustment are those of its sealed event, and the event has its legs.
SELECT coalesce(e.tenant_id, a.tenant_id) AS tenant_id,
       coalesce(e.account_id, a.account) AS subject,
       CASE WHEN a.account IS NULL
            THEN format('an adjustment of %s in transfer %s, of which no event tells', e.amount,
                        e.transfer_id)
            WHEN e.account_id IS NULL
            THEN format('transfer %s was told and is not there', a.transfer)
            ELSE format('an entry of %s (%s) at %s in transfer %s; told was %s (%s) at %s',
                        e.amount, e.reason, instant_text(e.created_at), e.transfer_id, a.amount,
                        a.reason, instant_text(a.time)) END AS detail
  FROM (SELECT * FROM entry WHERE type <> 'PAYMENT'
           AND ($1::integer IS NULL OR tenant_id = $1) AND $2::smallint IS NULL
           AND transfer_id >= $4::uuid) AS e
  FULL JOIN (
       SELECT v.tenant_id, (v.data ->> 'transfer_id')::uuid AS transfer, leg.account, leg.amount,
              v.data ->> 'reason' AS reason, v.time
         FROM event v CROSS JOIN LATERAL (VALUES
              (v.data ->> 'account_id', (v.data ->> 'amount')::bigint),
              ('issuer', -(v.data ->> 'amount')::bigint)) AS leg (account, amount)
        WHERE v.type = 'account.adjusted' AND ($1 IS NULL OR v.tenant_id = $1) AND $2 IS NULL
          AND v.event_id >= $4) AS a
    ON a.tenant_id = e.tenant_id AND a.transfer = e.transfer_id AND a.account = e.account_id
 WHERE (e.amount, e.reason) IS DISTINCT FROM (a.amount, a.reason)
    OR e.created_at NOT BETWEEN a.time - interval '5 minutes' AND a.time + interval '5 minutes'
 ORDER BY 1, 2 LIMIT $3
