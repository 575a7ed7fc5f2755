-- Proofs about schedules: the book, what came of it, and how far each has come. Arguments as in
-- prove.sql.

-- name: prove_book_occurrence_has_subject
-- What the book says was made is there and belongs to the schedule, and nothing twice. Jobs that
-- were pruned are older than anything that still has its outcome.
SELECT o.tenant_id, o.schedule_id::text AS subject,
       format('its occurrence of %s names the %s %s, which %s', instant_text(o.scheduled_for),
              o.kind, o.subject, CASE WHEN o.times > 1 THEN 'another one names as well'
                                      WHEN coalesce(j.job_id, p.payment_id) IS NULL
                                      THEN 'is not there'
                                      ELSE 'is not its own, or of another instant' END) AS detail
  FROM (SELECT *, count(*) OVER (PARTITION BY bucket, tenant_id, subject) AS times
          FROM occurrence
         WHERE subject >= $4::uuid AND subject < $5::uuid
           AND ($1::integer IS NULL OR tenant_id = $1)
           AND ($2::smallint[] IS NULL OR bucket = ANY ($2))) AS o
  LEFT JOIN job j ON o.kind = 'job' AND j.bucket = bucket_of(o.subject)
       AND j.tenant_id = o.tenant_id AND j.job_id = o.subject
  LEFT JOIN payment p ON o.kind = 'payment' AND p.bucket = bucket_of(o.subject)
       AND p.tenant_id = o.tenant_id AND p.payment_id = o.subject
 WHERE (o.times > 1 OR (o.kind = 'payment' AND p.payment_id IS NULL)
        OR (o.kind = 'job' AND j.job_id IS NULL AND NOT (
            o.created_at < (SELECT coalesce(max(h.finished_at), 'infinity') FROM (
                SELECT finished_at FROM outcome k WHERE k.bucket = bucket_of(o.subject)
                   AND k.tenant_id = o.tenant_id ORDER BY k.subject LIMIT 1) AS h)))
        OR (coalesce(j.job_id, p.payment_id) IS NOT NULL
            AND (coalesce(j.schedule_id, p.schedule_id) IS DISTINCT FROM o.schedule_id
                 OR j.due_at <> o.scheduled_for
                 OR uuid_floor(o.scheduled_for) <> uuid_floor(uuid_instant(o.occurrence_id))
                 OR coalesce(j.effective_at, p.due_at) < o.due_at
                 OR (coalesce(j.effective_at, p.due_at) > o.due_at
                     AND coalesce(j.effective_at, p.due_at)
                         > coalesce(j.created_at, p.created_at) + interval '1 minute'))))
 ORDER BY o.schedule_id, o.scheduled_for LIMIT $3

-- name: prove_book_subject_has_occurrence
-- What a schedule made stands in its book: as a rule at its own instant, which leads to the row by
-- its key; only where a calendar or a trigger moved it the whole book is read for it.
SELECT made.tenant_id, made.schedule_id::text AS subject,
       format('its book does not know the %s %s', made.kind, made.subject) AS detail
  FROM (SELECT tenant_id, schedule_id, job_id AS subject, 'job' AS kind, due_at FROM job
         WHERE schedule_id IS NOT NULL AND origin_id IS NULL
           AND ($1::integer IS NULL OR tenant_id = $1)
           AND ($2::smallint[] IS NULL OR bucket = ANY ($2))
           AND job_id >= $4::uuid AND job_id < $5::uuid
         UNION ALL
        SELECT tenant_id, schedule_id, payment_id, 'payment', due_at FROM payment
         WHERE schedule_id IS NOT NULL AND ($1 IS NULL OR tenant_id = $1)
           AND ($2 IS NULL OR bucket = ANY ($2))
           AND payment_id >= $4 AND payment_id < $5) AS made
 WHERE coalesce(
       (SELECT true FROM occurrence o
         WHERE o.bucket = bucket_of(made.schedule_id) AND o.tenant_id = made.tenant_id
           AND o.schedule_id = made.schedule_id AND o.subject = made.subject
           AND o.occurrence_id >= uuid_floor(made.due_at)
           AND o.occurrence_id < uuid_floor(made.due_at + interval '1 ms') LIMIT 1),
       (SELECT true FROM occurrence o
         WHERE o.bucket = bucket_of(made.schedule_id) AND o.tenant_id = made.tenant_id
           AND o.schedule_id = made.schedule_id AND o.subject = made.subject LIMIT 1)) IS NULL
 ORDER BY made.schedule_id, made.subject LIMIT $3

-- name: prove_book_schedule_follows_book
-- Its progress is what the book shows of its rule: the newest occurrence, the runs, what was made
-- last; and it has a timer as long as it goes on.
SELECT s.tenant_id, s.schedule_id::text AS subject,
       format('it stands at %s after %s runs, the last %s; its book ends at %s after %s runs, the '
              'last %s', instant_text(s.handled), s.runs, coalesce(s.last_id::text, 'none'),
              coalesce(instant_text(b.last_at), 'nothing'), b.runs,
              coalesce(l.subject::text, 'none')) AS detail
  FROM schedule s
 CROSS JOIN LATERAL (
       -- What it made of the future, by a clock that was ahead, it passes when the time comes.
       SELECT max(o.scheduled_for) FILTER (
                  WHERE o.cause = 'rule' AND o.scheduled_for <= coalesce((SELECT c.at
                        FROM test_clock c WHERE c.tenant_id = s.tenant_id), clock())) AS last_at,
              count(*) FILTER (WHERE o.cause = 'rule' AND o.status IN ('FIRED', 'LATE')) AS runs
         FROM occurrence o WHERE o.bucket = s.bucket AND o.tenant_id = s.tenant_id
          AND o.schedule_id = s.schedule_id) AS b
  LEFT JOIN LATERAL (
       SELECT o.subject FROM occurrence o
        WHERE o.bucket = s.bucket AND o.tenant_id = s.tenant_id AND o.schedule_id = s.schedule_id
          AND o.subject IS NOT NULL
        ORDER BY o.created_at DESC, o.occurrence_id DESC LIMIT 1) AS l ON true
  LEFT JOIN timer t ON t.bucket = s.bucket AND t.subject = s.schedule_id
 WHERE ($1::integer IS NULL OR s.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR s.bucket = ANY ($2))
   AND s.schedule_id >= $4::uuid AND $5::uuid IS NOT NULL AND s.deleted_at IS NULL
   AND (s.handled < b.last_at OR s.runs <> b.runs OR s.last_id IS DISTINCT FROM l.subject
        OR (t.subject IS NULL AND s.ended_at IS NULL AND s.set_aside_at IS NULL)
        OR lane_purpose(t.lane_id) <> 1)
 ORDER BY s.schedule_id LIMIT $3
