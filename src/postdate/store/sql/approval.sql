-- Approvals: who asked for a large payment, and what a second person said.

-- name: approval_request
-- For what a version of a schedule makes, whoever wrote its template asked, together with those who
-- have changed the rest up to this version, or have run it by hand. Persons come as one JSON array
-- for each payment.
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

-- name: approval_find
SELECT requested_by, requested_at, expires_at, decision, decided_by, decided_at, note,
       requested_persons
  FROM payment_approval WHERE bucket = $1 AND tenant_id = $2 AND payment_id = $3

-- name: approval_decide
UPDATE payment_approval
   SET decision = $4, decided_by = $5, decided_at = clock(), note = $6, decided_persons = $7
 WHERE bucket = $1 AND tenant_id = $2 AND payment_id = $3 AND decision IS NULL
RETURNING requested_by, requested_at, expires_at, decision, decided_by, decided_at, note

-- name: approval_open
-- The timer goes where settlers look; what was approved late is due now.
UPDATE timer SET lane_id = $3, due_at = greatest(due_at, clock())
 WHERE bucket = $1 AND subject = $2

-- name: approval_waiting
SELECT payment_id FROM payment_approval
 WHERE tenant_id = $1 AND payment_id > $2 AND decision IS NULL ORDER BY payment_id LIMIT $3

-- name: approval_expired
SELECT tenant_id, payment_id FROM payment_approval
 WHERE expires_at <= clock() AND decision IS NULL ORDER BY expires_at LIMIT $1
