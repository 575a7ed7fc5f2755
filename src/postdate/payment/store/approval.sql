-- Approvals: who asked for a large payment, and what a second person said.

-- name: approval_request
-- A payment that a version of a schedule makes was requested by the author of its template,
-- together with everyone who has changed the rest up to this version, or has run it by hand.
-- Persons come as one JSON array for each payment.
INSERT INTO payment_approval (bucket, tenant_id, payment_id, requested_by, requested_persons,
                              expires_at)
SELECT new.bucket, new.tenant_id, new.payment_id, coalesce(v.template_by, new.actor),
       coalesce(v.persons, '{}') || ARRAY(SELECT jsonb_array_elements_text(new.persons::jsonb)),
       clock() + make_interval(secs => new.seconds)
  FROM unnest($1::smallint[], $2::integer[], $3::uuid[], $4::text[], $5::text[], $6::uuid[],
              $7::integer[], $8::float8[])
       AS new (bucket, tenant_id, payment_id, actor, persons, schedule_id, version, seconds)
  LEFT JOIN schedule_version v ON v.bucket = bucket_of(new.schedule_id)
       AND v.tenant_id = new.tenant_id AND v.schedule_id = new.schedule_id
       AND v.version = new.version

-- name: approval_set_aside
UPDATE timer t SET lane_id = $3
  FROM unnest($1::smallint[], $2::uuid[]) AS waiting (bucket, subject)
 WHERE t.bucket = waiting.bucket AND t.subject = waiting.subject

-- name: approval_requested
SELECT a.payment_id
  FROM unnest($1::smallint[], $2::integer[], $3::uuid[]) AS wanted (bucket, tenant_id, payment_id)
  JOIN payment_approval a ON a.bucket = wanted.bucket AND a.tenant_id = wanted.tenant_id
   AND a.payment_id = wanted.payment_id

-- name: approval_find
SELECT requested_by, requested_at, expires_at, decision, decided_by, decided_at, note,
       requested_persons
  FROM payment_approval WHERE bucket = $1 AND tenant_id = $2 AND payment_id = $3

-- name: approval_decide
UPDATE payment_approval
   SET decision = $4, decided_by = $5, decided_at = clock(), note = $6, decided_persons = $7
 WHERE bucket = $1 AND tenant_id = $2 AND payment_id = $3 AND decision IS NULL
RETURNING requested_by, requested_at, expires_at, decision, decided_by, decided_at, note

-- name: approval_void
-- Terms were changed: the author of the change asks now, together with the earlier requesters. What
-- was decided no longer counts; the events keep it.
UPDATE payment_approval
   SET requested_by = $4, requested_at = clock(),
       requested_persons = ARRAY(SELECT DISTINCT unnest(requested_persons || $5::text[])
                                  ORDER BY 1),
       expires_at = clock() + make_interval(secs => $6), decision = NULL, decided_by = NULL,
       decided_persons = NULL, decided_at = NULL, note = NULL
 WHERE bucket = $1 AND tenant_id = $2 AND payment_id = $3
RETURNING payment_id

-- name: approval_open
-- The timer goes where settlers look; what was approved late is due now.
UPDATE timer SET lane_id = $3, due_at = greatest(due_at, clock())
 WHERE bucket = $1 AND subject = $2

-- name: approval_waiting
SELECT payment_id FROM payment_approval
 WHERE tenant_id = $1 AND payment_id > $2 AND decision IS NULL ORDER BY payment_id LIMIT $3

-- name: approval_expired
-- Without locked payments ($2) and accounts ($3, $4): of live tenants, or ($5) of one
-- in test mode.
SELECT a.tenant_id, a.payment_id, p.from_account
  FROM payment_approval a
  JOIN payment p ON p.bucket = a.bucket AND p.tenant_id = a.tenant_id
   AND p.payment_id = a.payment_id
 WHERE a.expires_at <= clock() AND a.decision IS NULL AND a.payment_id <> ALL ($2::uuid[])
   AND (a.tenant_id, p.from_account) NOT IN (SELECT * FROM unnest($3::integer[], $4::text[]))
   AND CASE WHEN $5::integer IS NULL
            THEN NOT EXISTS (SELECT FROM test_clock c WHERE c.tenant_id = a.tenant_id)
            ELSE a.tenant_id = $5 END
 ORDER BY a.expires_at LIMIT $1

-- name: approval_next_end
-- When the first of a tenant's payments that wait will have waited too long.
SELECT min(expires_at) FROM payment_approval WHERE tenant_id = $1 AND decision IS NULL
