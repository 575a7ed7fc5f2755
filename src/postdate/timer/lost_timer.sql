-- Lost timers: of payments and jobs that have neither a timer nor an outcome. Inserting the timer
-- is the lock: another transaction that puts it back, or ends the thing, waits here.

-- name: lost_timer_list
-- Lost timers of one bucket, of a tenant ($2) or of all, from an id on ($3), at most $4.
(SELECT p.tenant_id, p.payment_id AS subject, 'payment' AS noun,
        EXISTS (SELECT FROM test_clock c WHERE c.tenant_id = p.tenant_id) AS test
   FROM payment p
  WHERE p.bucket = $1 AND ($2::integer IS NULL OR p.tenant_id = $2) AND p.payment_id >= $3::uuid
    AND NOT EXISTS (SELECT FROM timer t WHERE t.bucket = $1 AND t.subject = p.payment_id)
    AND NOT EXISTS (SELECT FROM outcome o WHERE o.bucket = $1 AND o.subject = p.payment_id)
  ORDER BY p.payment_id LIMIT $4)
 UNION ALL
(SELECT j.tenant_id, j.job_id, 'job',
        EXISTS (SELECT FROM test_clock c WHERE c.tenant_id = j.tenant_id)
   FROM job j
  WHERE j.bucket = $1 AND ($2 IS NULL OR j.tenant_id = $2) AND j.job_id >= $3
    AND NOT EXISTS (SELECT FROM timer t WHERE t.bucket = $1 AND t.subject = j.job_id)
    AND NOT EXISTS (SELECT FROM outcome o WHERE o.bucket = $1 AND o.subject = j.job_id)
  ORDER BY j.job_id LIMIT $4)

-- name: lost_timer_put_back_payment
-- Where its last reschedule or its last attempt left it, in the lane of what it waits for ($4 for
-- a settlement, $5 for a second person). What was set aside waits for a person again.
INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at, revision, token, claimed_at,
                   ready_at)
SELECT p.bucket, p.tenant_id,
       CASE WHEN v.payment_id IS NOT NULL AND v.decision IS NULL THEN $5::integer
            ELSE $4::integer END,
       p.payment_id, stood.due_at, coalesce(m.changes, 0), coalesce(a.attempt, 0),
       CASE WHEN stood.due_at = 'infinity' THEN a.finished_at END,
       CASE WHEN stood.due_at = 'infinity' THEN a.due_at END
  FROM payment p
  LEFT JOIN payment_approval v ON v.bucket = p.bucket AND v.tenant_id = p.tenant_id
       AND v.payment_id = p.payment_id
  LEFT JOIN LATERAL (
       SELECT (e.data ->> 'scheduled_time')::timestamptz AS due_at, e.time,
              count(*) OVER () AS changes
         FROM event e
        WHERE e.bucket = $1 AND e.subject = $3 AND e.type = 'payment.rescheduled'
        ORDER BY (e.data ->> 'revision')::integer DESC LIMIT 1) AS m ON true
  LEFT JOIN LATERAL (
       SELECT x.attempt, x.due_at, x.retry_at, x.finished_at FROM attempt x
        WHERE x.bucket = $1 AND x.subject = $3 ORDER BY x.attempt DESC LIMIT 1) AS a ON true
 CROSS JOIN LATERAL (
       SELECT CASE WHEN a.attempt IS NULL THEN coalesce(m.due_at, p.due_at)
                   WHEN m.time > a.finished_at THEN m.due_at
                   ELSE coalesce(a.retry_at, 'infinity') END AS due_at) AS stood
 WHERE p.bucket = $1 AND p.tenant_id = $2 AND p.payment_id = $3
ON CONFLICT (bucket, subject) DO NOTHING
RETURNING nullif(due_at, 'infinity') AS due_at

-- name: lost_timer_put_back_job
-- Where its newest revision or its last attempt left it. One in doubt waits for a person again.
-- One that was due may have been running: it comes back as a lease that has run out, so that
-- the claim writes down a lost attempt, and the job's policy decides whether it runs.
INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at, revision, attempt, token,
                   claimed_at, ready_at, key_id)
SELECT j.bucket, j.tenant_id, coalesce(r.lane_id, j.lane_id), j.job_id,
       CASE WHEN stood.running THEN now.at ELSE stood.due_at END, coalesce(r.revision, 0),
       coalesce(a.attempt, 0), stood.running::integer,
       CASE WHEN stood.running THEN stood.due_at END,
       CASE WHEN stood.running THEN stood.due_at END,
       lane_key_id(j.tenant_id, (SELECT l.name FROM lane l WHERE l.lane_id = j.lane_id), j.key)
  FROM job j
 CROSS JOIN (SELECT clock() AS at) AS now
  LEFT JOIN LATERAL (
       SELECT v.revision, v.effective_at, v.created_at, v.lane_id FROM job_revision v
        WHERE v.bucket = $1 AND v.job_id = $3 ORDER BY v.revision DESC LIMIT 1) AS r ON true
  LEFT JOIN LATERAL (
       SELECT x.attempt, x.status, x.retry_at, x.finished_at FROM attempt x
        WHERE x.bucket = $1 AND x.subject = $3 ORDER BY x.attempt DESC LIMIT 1) AS a ON true
 CROSS JOIN LATERAL (
       SELECT CASE WHEN a.status = 'UNKNOWN' AND a.retry_at IS NULL THEN 'infinity'
                   WHEN r.created_at > a.finished_at THEN r.effective_at
                   ELSE greatest(coalesce(r.effective_at, j.effective_at), a.retry_at)
                   END AS due_at) AS known
 CROSS JOIN LATERAL (SELECT known.due_at, known.due_at <= now.at AS running) AS stood
 WHERE j.bucket = $1 AND j.tenant_id = $2 AND j.job_id = $3
ON CONFLICT (bucket, subject) DO NOTHING
RETURNING nullif(due_at, 'infinity') AS due_at

-- name: lost_timer_ended
-- What shows that a payment or job has ended after all, and only its outcome was lost: money that
-- moved, a decision that was told, an end that waits to be sealed.
SELECT 'an outcome' AS told FROM outcome o WHERE o.bucket = $1 AND o.subject = $3
 UNION ALL
SELECT 'the event ' || e.type FROM event e
 WHERE e.bucket = $1 AND e.subject = $3 AND e.tenant_id = $2
   AND (e.type IN ('payment.failed', 'payment.cancelled', 'job.cancelled')
        OR (e.type = 'job.resolved' AND e.data ->> 'outcome' <> 'retry'))
 UNION ALL
SELECT 'a transfer from ' || n.from_account
  FROM payment p JOIN transfer n ON n.bucket = p.bucket AND n.tenant_id = p.tenant_id
       AND n.from_account = p.from_account AND n.payment_id = p.payment_id
 WHERE p.bucket = $1 AND p.tenant_id = $2 AND p.payment_id = $3 AND n.transfer_id >= $4::uuid
 UNION ALL
SELECT 'the event ' || coalesce(b.types[one.place], b.types[1])
  FROM outbox b CROSS JOIN LATERAL unnest(b.subjects) WITH ORDINALITY AS one (subject, place)
 WHERE b.bucket = $1 AND b.tenant_id = $2 AND one.subject = $3
   AND coalesce(b.types[one.place], b.types[1])
       IN ('payment.completed', 'job.completed', 'job.failed')
 LIMIT 1

-- name: lost_timer_sealed
-- The same from the tenant's chain ($1 is its bucket), of which those seals are read that can know.
SELECT 'the sealed event ' || s.types[one.kind] AS told
  FROM seal s CROSS JOIN LATERAL unnest(s.subjects, s.kinds) AS one (subject, kind)
 WHERE s.bucket = $1 AND s.tenant_id = $2 AND s.seal_id >= $4::uuid AND $3 = ANY (s.subjects)
   AND one.subject = $3
   AND s.types[one.kind] IN ('payment.completed', 'job.completed', 'job.failed')
 LIMIT 1

-- name: lost_timer_tenant
SELECT tenant_id FROM payment WHERE bucket = $1 AND payment_id = $2

-- name: lost_timer_requested
-- Who asked last for a payment's timer, within a number of seconds, and which persons they are.
-- The database's time orders what two processes recorded; their ids follow their own clocks.
SELECT e.actor, e.data::text FROM event e
 WHERE e.bucket = $1 AND e.tenant_id = $2 AND e.subject = $3
   AND e.type = 'payment.repair_requested' AND e.time > clock() - make_interval(secs => $4)
   AND NOT EXISTS (SELECT FROM event r WHERE r.bucket = $1 AND r.subject = $3
                      AND r.type = 'payment.repaired' AND r.time > e.time)
 ORDER BY e.time DESC LIMIT 1

-- name: lost_timer_has_end
SELECT EXISTS (SELECT FROM outcome WHERE bucket = $1 AND subject = $2)

-- name: lost_timer_has_timer
SELECT EXISTS (SELECT FROM timer WHERE bucket = $1 AND subject = $2)
