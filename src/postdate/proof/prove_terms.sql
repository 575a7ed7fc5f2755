-- Proofs that what will happen follows from what was asked for. Arguments and answers as in
-- prove.sql: $1 tenant or NULL, $2 buckets or NULL, $3 how many, ids from $4 on and below $5.

-- name: prove_terms_payment_timer_follows_terms
-- The timer of a payment stands at its instant, in the lane of what it waits for. It is moved by a
-- reschedule (an event), by a retry (an attempt), by a late approval, or set aside for a person.
SELECT t.tenant_id, t.subject::text AS subject,
       CASE WHEN wrong.lane THEN format('its timer lies in lane %s, its approval is %s', t.lane_id,
                                        coalesce(v.decision, 'waited for', 'not asked for'))
            WHEN wrong.claim THEN format('its timer was claimed at %s, token %s, attempt %s, with '
                                         '%s attempts written down', instant_text(t.claimed_at),
                                         t.token, t.attempt, coalesce(a.attempt, 0))
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
        ORDER BY (e.data ->> 'revision')::integer DESC LIMIT 1) AS m ON true
  LEFT JOIN LATERAL (
       SELECT a.retry_at, a.attempt, true AS tried FROM attempt a
        WHERE a.bucket = t.bucket AND a.subject = t.subject
        ORDER BY a.attempt DESC LIMIT 1) AS a ON true
 CROSS JOIN LATERAL (
       SELECT (v.payment_id IS NOT NULL AND v.decision IS NULL) <> (lane_purpose(t.lane_id) = 3)
              OR (lane_purpose(t.lane_id) = 4 AND NOT EXISTS (SELECT FROM tenant_halt h
                                                 WHERE h.tenant_id = t.tenant_id)) AS lane,
              t.attempt <> 0 OR t.claimed_by IS NOT NULL
              OR (t.claimed_at IS NOT NULL) <> (t.due_at = 'infinity')
              OR (t.claimed_at > clock() + interval '1 minute'
                  AND t.claimed_at > coalesce((SELECT c.at FROM test_clock c
                      WHERE c.tenant_id = t.tenant_id), '-infinity') + interval '1 minute')
              OR (t.subject >= $4::uuid AND t.token <> coalesce(a.attempt, 0)) AS claim,
              t.subject >= $4 AND (t.revision <> coalesce(m.changes, 0) OR NOT coalesce(
                  t.due_at = coalesce(m.due_at, p.due_at) OR t.due_at = a.retry_at
                  OR (t.due_at = 'infinity' AND a.tried AND a.retry_at IS NULL)
                  OR (v.decision = 'approved' AND t.due_at > coalesce(m.due_at, p.due_at)
                      AND t.due_at - v.decided_at
                          BETWEEN interval '-1 minute' AND interval '1 minute'), false))
              AS due) AS wrong
 WHERE t.lane_id < 16 AND lane_purpose(t.lane_id) IN (0, 3, 4)
   AND ($1::integer IS NULL OR t.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR t.bucket = ANY ($2)) AND $5::uuid IS NOT NULL
   AND (wrong.lane OR wrong.claim OR wrong.due)
 ORDER BY t.subject LIMIT $3

-- name: prove_terms_job_timer_follows_terms
-- The timer of a job lies in its lane and is due no earlier than its newest revision or its last
-- attempt says, or than a person had it run; waits for a breaker or a limit only make it later, and
-- not by a day. Only doubt about its last attempt lets it wait for a person.
SELECT t.tenant_id, t.subject::text AS subject,
       format('its timer lies in lane %s at %s, revision %s, after %s attempts; asked for in lane '
              '%s at %s, with %s attempts written down', t.lane_id, instant_text(t.due_at),
              t.revision, t.attempt, coalesce(r.lane_id, j.lane_id), instant_text(terms.due_at),
              a.attempts) AS detail
  FROM timer t
  JOIN job j ON j.bucket = t.bucket AND j.tenant_id = t.tenant_id AND j.job_id = t.subject
  LEFT JOIN LATERAL (
       SELECT r.revision, r.effective_at, r.created_at, r.lane_id FROM job_revision r
        WHERE r.bucket = t.bucket AND r.job_id = t.subject
        ORDER BY r.revision DESC LIMIT 1) AS r ON true
 CROSS JOIN LATERAL (
       SELECT count(*) AS attempts FROM attempt a
        WHERE a.bucket = t.bucket AND a.subject = t.subject) AS a
  LEFT JOIN LATERAL (
       SELECT l.retry_at, l.finished_at, l.status FROM attempt l
        WHERE l.bucket = t.bucket AND l.subject = t.subject
        ORDER BY l.attempt DESC LIMIT 1) AS l ON true
  LEFT JOIN LATERAL (
       SELECT e.time - interval '30 s' AS due_at FROM event e
        WHERE e.bucket = t.bucket AND e.subject = t.subject AND e.tenant_id = t.tenant_id
          AND e.type = 'job.rescheduled' AND e.data ->> 'reason' = 'run_now'
          AND e.time > coalesce(r.created_at, '-infinity')
        ORDER BY e.time DESC LIMIT 1) AS n ON true
 CROSS JOIN LATERAL (
       SELECT least(n.due_at, coalesce(r.effective_at, j.effective_at)) AS due_at,
              CASE WHEN r.revision IS NULL THEN least(l.retry_at, CASE
                   WHEN n.due_at > l.finished_at - interval '30 s' THEN n.due_at END) END
              AS retry_at) AS terms
 WHERE t.lane_id >= 16 AND ($1::integer IS NULL OR t.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR t.bucket = ANY ($2))
   AND (t.lane_id <> coalesce(r.lane_id, j.lane_id) OR t.revision <> coalesce(r.revision, 0)
        OR (t.attempt <> a.attempts AND t.subject >= $4::uuid AND $5::uuid IS NOT NULL)
        OR (t.claimed_at IS NULL AND t.due_at < greatest(terms.due_at, terms.retry_at))
        OR (t.due_at = 'infinity' AND t.subject >= $4
            AND coalesce(l.status, 'none') NOT IN ('UNKNOWN', 'LOST'))
        OR (t.due_at < 'infinity' AND t.due_at > interval '1 day' + greatest(
            coalesce(r.effective_at, j.effective_at), l.retry_at, clock(),
            (SELECT c.at FROM test_clock c WHERE c.tenant_id = t.tenant_id)))
        OR (t.claimed_at > clock() + interval '1 minute'
                  AND t.claimed_at > coalesce((SELECT c.at FROM test_clock c
                      WHERE c.tenant_id = t.tenant_id), '-infinity') + interval '1 minute')
        OR t.claimed_at < terms.due_at - interval '1 minute')
 ORDER BY t.subject LIMIT $3

-- name: prove_terms_timer_has_job
SELECT t.tenant_id, t.subject::text AS subject, 'a timer without its job' AS detail
  FROM timer t
  LEFT JOIN job j ON j.bucket = t.bucket AND j.tenant_id = t.tenant_id AND j.job_id = t.subject
 WHERE t.lane_id >= 16 AND ($1::integer IS NULL OR t.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR t.bucket = ANY ($2)) AND $4::uuid < $5::uuid
   AND j.job_id IS NULL
 ORDER BY t.subject LIMIT $3

-- name: prove_terms_timer_has_subject
-- The timers of the system's own lanes belong to a schedule or a subscription; in the other lanes
-- of the system no stage reads.
SELECT t.tenant_id, t.subject::text AS subject,
       format('a timer in lane %s of no schedule or subscription', t.lane_id) AS detail
  FROM timer t
  LEFT JOIN schedule s ON lane_purpose(t.lane_id) = 1 AND s.bucket = t.bucket
       AND s.tenant_id = t.tenant_id
       AND s.schedule_id = t.subject AND s.deleted_at IS NULL AND s.ended_at IS NULL
  LEFT JOIN subscription b ON lane_purpose(t.lane_id) = 2 AND b.bucket = t.bucket
       AND b.tenant_id = t.tenant_id AND b.subscription_id = t.subject
 WHERE t.lane_id < 16 AND lane_purpose(t.lane_id) NOT IN (0, 3, 4)
   AND ($1::integer IS NULL OR t.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR t.bucket = ANY ($2)) AND $4::uuid < $5::uuid
   AND coalesce(s.schedule_id, b.subscription_id) IS NULL
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
 WHERE ($1::integer IS NULL OR j.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR j.bucket = ANY ($2))
   AND j.job_id >= $4::uuid AND j.job_id < $5::uuid
   AND ((t.subject IS NULL) = (o.subject IS NULL)
        OR (o.status = 'COMPLETED' AND o.actor IS NULL AND o.code IS DISTINCT FROM 'resolved'))
 ORDER BY j.job_id LIMIT $3

-- name: prove_terms_outcome_has_subject
SELECT o.tenant_id, o.subject::text AS subject, 'an outcome without its payment or job' AS detail
  FROM outcome o
  LEFT JOIN payment p ON p.bucket = o.bucket AND p.tenant_id = o.tenant_id
       AND p.payment_id = o.subject
  LEFT JOIN job j ON j.bucket = o.bucket AND j.tenant_id = o.tenant_id AND j.job_id = o.subject
 WHERE ($1::integer IS NULL OR o.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR o.bucket = ANY ($2))
   AND o.subject >= $4::uuid AND o.subject < $5::uuid AND p.payment_id IS NULL AND j.job_id IS NULL
 ORDER BY o.subject LIMIT $3

-- name: prove_terms_outcome_is_as_recorded
-- How a payment failed or was cancelled, and how a person ended a job, is what its sealed event
-- says, of the same transaction: one of ours takes no longer than the half minute that is allowed
-- here. A job has such an end if and only if it was told. Events stay when their job is pruned.
WITH told AS (
    SELECT e.bucket, e.tenant_id, e.subject, e.time,
           CASE e.type WHEN 'job.cancelled' THEN 'CANCELLED' ELSE upper(e.data ->> 'outcome') END
           AS status,
           CASE e.type WHEN 'job.cancelled' THEN e.data ->> 'result' ELSE 'resolved' END AS code
      FROM event e
     WHERE e.type IN ('job.cancelled', 'job.resolved')
       AND e.data ->> 'outcome' IS DISTINCT FROM 'retry'
       AND ($1::integer IS NULL OR e.tenant_id = $1)
       AND ($2::smallint[] IS NULL OR e.bucket = ANY ($2))
       AND e.subject >= $4::uuid AND e.subject < $5::uuid
       AND EXISTS (SELECT FROM job j WHERE j.bucket = e.bucket AND j.job_id = e.subject)),
ended AS (
    SELECT o.bucket, o.tenant_id, o.subject, o.finished_at, o.status, o.code
      FROM outcome o JOIN job j ON j.bucket = o.bucket AND j.job_id = o.subject
     WHERE o.actor IS NULL AND ($1 IS NULL OR o.tenant_id = $1)
       AND ($2 IS NULL OR o.bucket = ANY ($2)) AND o.subject >= $4 AND o.subject < $5)
SELECT o.tenant_id, o.subject::text AS subject,
       format('it ended at %s with %s (%s); told was %s at %s', instant_text(o.finished_at),
              coalesce(o.code, 'no code'), o.error, e.data, instant_text(e.time)) AS detail
  FROM outcome o
  JOIN event e ON e.bucket = o.bucket AND e.subject = o.subject AND e.tenant_id = o.tenant_id
       AND e.type = 'payment.' || lower(o.status)
 WHERE o.status <> 'COMPLETED' AND ($1 IS NULL OR o.tenant_id = $1)
   AND ($2 IS NULL OR o.bucket = ANY ($2)) AND o.subject >= $4 AND o.subject < $5
   AND ((o.code, o.error) IS DISTINCT FROM (e.data ->> 'code', e.data ->> 'error')
        OR o.finished_at NOT BETWEEN e.time - interval '30 s' AND e.time + interval '30 s')
 UNION ALL
SELECT tenant_id, subject::text,
       format('it ended as %s (%s) at %s; told was %s (%s) at %s', coalesce(o.status, 'nothing'),
              o.code, instant_text(o.finished_at), coalesce(t.status, 'nothing'), t.code,
              instant_text(t.time))
  FROM ended o FULL JOIN told t USING (bucket, tenant_id, subject)
 WHERE (o.status, o.code) IS DISTINCT FROM (t.status, t.code)
    OR o.finished_at NOT BETWEEN t.time - interval '30 s' AND t.time + interval '30 s'
 ORDER BY subject LIMIT $3

-- name: prove_terms_transfer_has_payment
-- Every transfer of a payment is what the payment and its outcome say, of the same instant, and at
-- the versions that the outcome names: a second one has none.
SELECT t.tenant_id, t.payment_id::text AS subject,
       format('transfer %s moved %s from %s (version %s) to %s (version %s), %s; the payment says '
              '%s from %s (version %s) to %s (version %s), settled at %s in transfer %s',
              t.transfer_id, t.amount, t.from_account, t.from_version, t.to_account, t.to_version,
              instant_text(t.created_at), p.amount, p.from_account, o.from_version, p.to_account,
              o.to_version, instant_text(o.finished_at), o.transfer_id) AS detail
  FROM transfer t
  LEFT JOIN payment p ON p.bucket = bucket_of(t.payment_id) AND p.tenant_id = t.tenant_id
       AND p.payment_id = t.payment_id
  LEFT JOIN outcome o ON o.bucket = bucket_of(t.payment_id) AND o.tenant_id = t.tenant_id
       AND o.subject = t.payment_id
 WHERE t.payment_id IS NOT NULL AND ($1::integer IS NULL OR t.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR t.bucket = ANY ($2))
   AND t.transfer_id >= $4::uuid AND t.transfer_id < $5::uuid AND t.payment_id >= $4
   AND (p.bucket, p.to_bucket, p.amount, p.from_account, p.to_account, o.transfer_id,
        o.from_version, o.to_version, o.finished_at)
       IS DISTINCT FROM (t.bucket, t.to_bucket, t.amount, t.from_account, t.to_account,
                         t.transfer_id, t.from_version, t.to_version, t.created_at)
 ORDER BY t.payment_id, t.transfer_id LIMIT $3

-- name: prove_terms_idempotency_key_names_its_subject
-- What a client's key led to is what was made under it: the id of a job or payment ends in the hash
-- of key and request, and an adjustment is as it was answered. A job may be gone, a payment not.
SELECT i.tenant_id, i.key::text AS subject,
       format('leads to %s, which was not made under this key for this request', i.subject)
       AS detail
  FROM (SELECT *, CASE WHEN scope = 4 THEN convert_from(kept, 'UTF8')::jsonb END AS said
          FROM idempotency
         WHERE scope BETWEEN 1 AND 4 AND subject IS NOT NULL
           AND ($1::integer IS NULL OR tenant_id = $1)
           AND ($2::smallint[] IS NULL OR bucket = ANY ($2))) AS i
  LEFT JOIN payment p ON i.scope = 3 AND p.bucket = bucket_of(i.subject)
       AND p.tenant_id = i.tenant_id AND p.payment_id = i.subject
  LEFT JOIN entry e ON i.scope = 4 AND e.bucket = bucket_of(i.subject)
       AND e.tenant_id = i.tenant_id AND e.account_id = i.said -> 'answer' ->> 'account_id'
       AND e.version = (i.said -> 'answer' ->> 'version')::bigint AND e.transfer_id = i.subject
 WHERE i.subject >= $4::uuid AND i.subject < $5::uuid
   AND CASE i.scope
       WHEN 4 THEN
            (e.transfer_id::text, e.amount::text, e.account_id, e.reason) IS DISTINCT FROM
            (i.said -> 'answer' ->> 'transfer_id', i.said -> 'request' ->> 'amount',
             i.said -> 'request' ->> 'account_id', i.said -> 'request' ->> 'reason')
            OR (i.said ->> 'refused')::boolean
       ELSE i.kept IS NOT NULL OR NOT idempotency_fits(i.key, i.fingerprint, i.subject)
            OR (i.scope = 3 AND p.payment_id IS NULL) END
 ORDER BY i.tenant_id, i.key LIMIT $3

-- name: prove_terms_asked_for
-- What was asked for under a client's key, which must be kept: for ever where it moves money, for a
-- week and as long as it is open where it is a job.
SELECT tenant_id, scope, key, subject
  FROM (SELECT bucket, tenant_id, 'payment' AS scope, idempotency_key::text AS key,
               payment_id AS subject
          FROM payment
         WHERE idempotency_key IS NOT NULL AND payment_id >= $4::uuid AND payment_id < $5::uuid
         UNION ALL
        SELECT j.bucket, j.tenant_id, 'job', j.idempotency_key::text, j.job_id
          FROM job j LEFT JOIN timer t ON t.bucket = j.bucket AND t.subject = j.job_id
         WHERE j.idempotency_key IS NOT NULL AND j.job_id >= $4 AND j.job_id < $5
           AND (least(j.created_at, uuid_instant(j.job_id)) > clock() - interval '7 days'
                OR t.subject IS NOT NULL)
         UNION ALL
        SELECT bucket, tenant_id, 'adjustment', data ->> 'idempotency_key',
               (data ->> 'transfer_id')::uuid
          FROM event
         WHERE type = 'account.adjusted' AND state IS NOT NULL AND event_id >= $4
           AND event_id < $5) AS asked
 WHERE ($1::integer IS NULL OR tenant_id = $1) AND ($2::smallint[] IS NULL OR bucket = ANY ($2))
   AND key IS NOT NULL AND subject >= $4
 ORDER BY subject LIMIT $3

-- name: prove_terms_adjustment_is_as_recorded
-- Both entries of an adjustment are those of its sealed event, and the event has its entries. The
-- event lies in the bucket of the account, the entry of the issuer in the issuer's own: for those,
-- what was told of the tenants whose issuer is here is read bucket by bucket, by the index of
-- states.
WITH told AS (
    SELECT v.tenant_id, (v.data ->> 'transfer_id')::uuid AS transfer, v.data ->> 'account_id'
           AS account, (v.data ->> 'amount')::bigint AS amount,
           (v.data ->> 'version')::bigint AS version, (v.data ->> 'balance')::bigint AS balance,
           v.data ->> 'reason' AS reason, v.time
      FROM event v
     WHERE v.type = 'account.adjusted' AND v.state IS NOT NULL
       AND ($1::integer IS NULL OR v.tenant_id = $1)
       AND ($2::smallint[] IS NULL OR v.bucket = ANY ($2))
       AND v.event_id >= $4::uuid AND v.event_id < $5::uuid
     UNION ALL
    SELECT i.tenant_id, (v.data ->> 'transfer_id')::uuid, i.account_id,
           -(v.data ->> 'amount')::bigint, NULL, NULL, v.data ->> 'reason', v.time
      FROM account i CROSS JOIN generate_series(0, 63) AS buckets (bucket)
     CROSS JOIN LATERAL (
           SELECT * FROM event v
            WHERE v.bucket = buckets.bucket AND v.tenant_id = i.tenant_id AND v.state IS NOT NULL
              AND v.type = 'account.adjusted' AND v.event_id >= $4 AND v.event_id < $5
           OFFSET 0) AS v
     WHERE i.account_id = 'issuer' AND ($1 IS NULL OR i.tenant_id = $1)
       AND ($2 IS NULL OR i.bucket = ANY ($2)))
SELECT coalesce(e.tenant_id, a.tenant_id) AS tenant_id,
       coalesce(e.account_id, a.account) AS subject,
       CASE WHEN a.account IS NULL
            THEN format('an adjustment of %s in transfer %s, of which no event tells', e.amount,
                        e.transfer_id)
            WHEN e.account_id IS NULL
            THEN format('transfer %s was told and is not there', a.transfer)
            ELSE format('an adjustment of %s (%s) at version %s, balance %s, %s, in transfer %s; '
                        'told was %s (%s) at version %s, balance %s, %s', e.amount, e.reason,
                        e.version, e.balance, instant_text(e.created_at), e.transfer_id, a.amount,
                        a.reason, a.version, a.balance, instant_text(a.time)) END AS detail
  FROM (SELECT * FROM entry
         WHERE payment_id IS NULL AND ($1 IS NULL OR tenant_id = $1)
           AND ($2 IS NULL OR bucket = ANY ($2))
           AND transfer_id >= $4 AND transfer_id < $5) AS e
  FULL JOIN told a
    ON a.tenant_id = e.tenant_id AND a.transfer = e.transfer_id AND a.account = e.account_id
 WHERE (e.amount, e.reason) IS DISTINCT FROM (a.amount, a.reason)
    OR e.version <> a.version OR e.balance <> a.balance
    OR e.created_at NOT BETWEEN a.time - interval '5 minutes' AND a.time + interval '5 minutes'
 ORDER BY 1, 2 LIMIT $3
