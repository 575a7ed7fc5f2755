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

-- name: call_of_targets
-- Of each target the reports of the $3 nodes that reported last.
SELECT report.*
  FROM unnest($2::text[]) AS wanted (target)
 CROSS JOIN LATERAL (
       SELECT target, node_id, calls, successes, p50_ms, p99_ms, answers, reported_at
         FROM destination_call c
        WHERE c.tenant_id = $1 AND c.target = wanted.target
        ORDER BY reported_at DESC LIMIT $3) AS report
 ORDER BY report.target, report.node_id

-- name: call_doubted
-- The targets of which a node's newest answer is a failure, the least successful first, so
-- that no number of others hides one that serves nothing. Reports outlive a deleted destination.
SELECT report.target, max(d.changed_at)
  FROM destination_call report
  LEFT JOIN destination d ON d.tenant_id = report.tenant_id AND d.name = report.target
 WHERE report.tenant_id = $1 AND NOT (report.answers -> -1 -> 2)::boolean
   AND d.disabled_at IS NULL AND d.paused_at IS NULL
   AND (d.name IS NOT NULL OR report.target LIKE '%://%')
 GROUP BY report.target
 ORDER BY min(report.successes::float / report.calls), report.target LIMIT $2

-- name: call_of_node
SELECT target, node_id, calls, successes, p50_ms, p99_ms, answers, reported_at
  FROM destination_call WHERE node_id = $1 ORDER BY reported_at DESC, target LIMIT $2
