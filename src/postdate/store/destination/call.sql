-- How the latest calls of each destination went, as each process reports them.

-- name: call_report
INSERT INTO destination_call (tenant_id, target, node_id, calls, successes, p50_ms, p99_ms, answers)
SELECT tenant_id, target, $1, calls, successes, p50_ms, p99_ms, answers
  FROM unnest($2::integer[], $3::text[], $4::integer[], $5::integer[], $6::integer[],
              $7::integer[], $8::jsonb[])
    AS report (tenant_id, target, calls, successes, p50_ms, p99_ms, answers)
 ORDER BY tenant_id, target
ON CONFLICT (tenant_id, target, node_id) DO UPDATE
   SET calls = excluded.calls, successes = excluded.successes, p50_ms = excluded.p50_ms,
       p99_ms = excluded.p99_ms, answers = excluded.answers, reported_at = excluded.reported_at

-- name: call_forget
DELETE FROM destination_call WHERE reported_at < clock() - make_interval(secs => $1)

-- name: call_of_tenant
-- Of one target, or of all.
SELECT target, node_id, calls, successes, p50_ms, p99_ms, answers, reported_at
  FROM destination_call
 WHERE tenant_id = $1 AND ($2::text IS NULL OR target = $2)
 ORDER BY target, node_id LIMIT $3

-- name: call_of_node
SELECT target, node_id, calls, successes, p50_ms, p99_ms, answers, reported_at
  FROM destination_call WHERE node_id = $1 ORDER BY reported_at DESC, target LIMIT $2
