-- The book: one labelled row for each nominal occurrence of a schedule.

-- name: occurrence_insert
-- Lean columns: one value for all rows comes as an array of that one, which coalesce repeats; a
-- column that is NULL throughout comes as an empty array; the bucket is read from the id.
INSERT INTO occurrence (bucket, tenant_id, schedule_id, occurrence_id, scheduled_for,
                        nominal_local, due_at, status, cause, version, kind, subject, code, notes)
SELECT bucket_of(schedule_id), coalesce(tenant_id, ($1::integer[])[1]), schedule_id, occurrence_id,
       coalesce(scheduled_for, ($4::timestamptz[])[1]),
       coalesce(nominal_local, ($5::timestamp[])[1]), coalesce(due_at, ($6::timestamptz[])[1]),
       coalesce(status, ($7::text[])[1]), coalesce(cause, ($8::text[])[1]),
       coalesce(version, ($9::integer[])[1]),
       CASE WHEN subject IS NOT NULL THEN coalesce(kind, ($10::text[])[1]) END, subject, code,
       string_to_array(notes, ' ')
  FROM unnest($1::integer[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::timestamp[],
              $6::timestamptz[], $7::text[], $8::text[], $9::integer[], $10::text[], $11::uuid[],
              $12::text[], $13::text[])
       AS new (tenant_id, schedule_id, occurrence_id, scheduled_for, nominal_local, due_at, status,
               cause, version, kind, subject, code, notes)

-- name: occurrence_relabel
-- Only what has not run changes: a buffered one is released or given up, a skipped one backfilled.
UPDATE occurrence o SET status = new.status, kind = new.kind, subject = new.subject,
       code = new.code, cause = coalesce(new.cause, o.cause)
  FROM unnest($1::smallint[], $2::integer[], $3::uuid[], $4::uuid[], $5::text[], $6::text[],
              $7::uuid[], $8::text[], $9::text[])
       AS new (bucket, tenant_id, schedule_id, occurrence_id, status, kind, subject, code, cause)
 WHERE o.bucket = new.bucket AND o.tenant_id = new.tenant_id AND o.schedule_id = new.schedule_id
   AND o.occurrence_id = new.occurrence_id AND o.status NOT IN ('FIRED', 'LATE')

-- name: occurrence_take_back
-- The first of those of the future that a rule gave and nothing was made of.
DELETE FROM occurrence
 WHERE bucket = $1 AND tenant_id = $2 AND schedule_id = $3 AND occurrence_id = ANY (ARRAY(
       SELECT o.occurrence_id FROM occurrence o
        WHERE o.bucket = $1 AND o.tenant_id = $2 AND o.schedule_id = $3
          AND o.occurrence_id >= uuid_floor($4::timestamptz) AND o.scheduled_for > $4
          AND o.cause = 'rule' AND o.subject IS NULL
        ORDER BY o.occurrence_id LIMIT $5)::uuid[])
RETURNING scheduled_for

-- name: occurrence_find
SELECT o.schedule_id, o.occurrence_id, o.status
  FROM unnest($1::smallint[], $2::integer[], $3::uuid[], $4::uuid[])
       AS wanted (bucket, tenant_id, schedule_id, occurrence_id)
  JOIN occurrence o USING (bucket, tenant_id, schedule_id, occurrence_id)

-- name: occurrence_page
-- The newest first.
SELECT occurrence_id, scheduled_for, nominal_local, due_at, status, cause, version, kind, subject,
       code, notes, created_at
  FROM occurrence
 WHERE bucket = $1 AND tenant_id = $2 AND schedule_id = $3 AND occurrence_id < $4
   AND ($5::text IS NULL OR status = $5)
 ORDER BY occurrence_id DESC LIMIT $6

-- name: occurrence_ended
-- How what occurrences have created has ended. The join is by primary key: partitions are pruned
-- row by row.
SELECT o.subject, o.status
  FROM unnest($1::smallint[], $2::uuid[]) AS wanted (bucket, subject)
  JOIN outcome o ON o.bucket = wanted.bucket AND o.subject = wanted.subject
 WHERE o.bucket = ANY ($1)

-- name: occurrence_recent
-- The newest occurrences of each of several schedules, for a strip of runs.
SELECT newest.* FROM occurrence_recent($1, $2, $3, $4) AS newest
 ORDER BY newest.schedule_id, newest.occurrence_id
