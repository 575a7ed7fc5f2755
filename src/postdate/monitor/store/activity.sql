-- Activity in slots of ten seconds: counted while events are sealed, read by the overview.

-- name: activity_count
-- In the order of the key, so that two writers never deadlock.
INSERT INTO activity AS a (tenant_id, slot, jobs_accepted, payments_accepted, jobs_executed,
                           payments_executed, jobs_failed, payments_failed)
SELECT * FROM unnest($1::integer[], $2::timestamptz[], $3::integer[], $4::integer[],
                     $5::integer[], $6::integer[], $7::integer[], $8::integer[])
       AS counted (tenant_id, slot) ORDER BY tenant_id, slot
ON CONFLICT (tenant_id, slot) DO UPDATE SET
       jobs_accepted = a.jobs_accepted + excluded.jobs_accepted,
       payments_accepted = a.payments_accepted + excluded.payments_accepted,
       jobs_executed = a.jobs_executed + excluded.jobs_executed,
       payments_executed = a.payments_executed + excluded.payments_executed,
       jobs_failed = a.jobs_failed + excluded.jobs_failed,
       payments_failed = a.payments_failed + excluded.payments_failed

-- name: activity_late
-- Arrays of arrays have no type of their own: each comes as text.
INSERT INTO activity AS a (tenant_id, slot, jobs_late, payments_late)
SELECT tenant_id, to_timestamp(floor(extract(epoch FROM clock()) / $4) * $4),
       jobs::integer[], payments::integer[]
  FROM unnest($1::integer[], $2::text[], $3::text[]) AS late (tenant_id, jobs, payments)
 ORDER BY tenant_id
ON CONFLICT (tenant_id, slot) DO UPDATE SET
       jobs_late = array_sum(a.jobs_late, excluded.jobs_late),
       payments_late = array_sum(a.payments_late, excluded.payments_late)

-- name: activity_recent
SELECT slot, jobs_accepted, payments_accepted, jobs_executed, payments_executed, jobs_failed,
       payments_failed, jobs_late, payments_late
  FROM activity
 WHERE tenant_id = $1 AND slot > clock() - make_interval(secs => $2) ORDER BY slot

-- name: activity_recent_of_all
SELECT slot, sum(jobs_accepted)::integer, sum(payments_accepted)::integer,
       sum(jobs_executed)::integer, sum(payments_executed)::integer, sum(jobs_failed)::integer,
       sum(payments_failed)::integer, '{}'::integer[], '{}'::integer[]
  FROM activity WHERE slot > clock() - make_interval(secs => $1) GROUP BY slot ORDER BY slot

-- name: activity_forget
DELETE FROM activity WHERE slot < clock() - make_interval(secs => $1)
