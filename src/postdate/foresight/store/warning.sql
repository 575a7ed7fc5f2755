-- Warnings of payments that will fail: which tenants are checked, which warnings are recorded.

-- name: warning_tenants
-- Who has payments that become due soon, stored ones or those of schedules; bounded.
SELECT DISTINCT found.tenant_id
  FROM (SELECT s.tenant_id
          FROM schedule s JOIN schedule_version v USING (bucket, tenant_id, schedule_id, version)
         WHERE s.deleted_at IS NULL AND s.ended_at IS NULL AND v.template -> 'payment' IS NOT NULL
         UNION ALL
        SELECT head.tenant_id FROM outbox_lock buckets
         CROSS JOIN LATERAL (
               SELECT t.tenant_id FROM timer t
                WHERE t.bucket = buckets.bucket AND t.lane_id = $1 AND t.due_at < $2
                ORDER BY t.due_at LIMIT 2000) AS head) AS found
 ORDER BY found.tenant_id LIMIT $3

-- name: warning_lock
-- Two nodes that check at once must not both record it.
SELECT lock_named('will_fail', $1)

-- name: warning_list_warned
SELECT e.subject
  FROM unnest($2::smallint[], $3::uuid[]) AS wanted (bucket, subject)
  JOIN event e ON e.bucket = wanted.bucket AND e.subject = wanted.subject
 WHERE e.tenant_id = $1 AND e.type = 'payment.will_fail' AND e.time > clock() - $4::interval
