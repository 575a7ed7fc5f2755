-- Destinations in trouble, as each process reports them.

-- name: trouble_report
INSERT INTO destination_trouble AS t
       (tenant_id, target, node_id, held_until, since, calls, successes, p99_ms, answers)
SELECT tenant_id, target, $1, clock() + make_interval(secs => held_seconds),
       clock() - make_interval(secs => open_for_seconds), calls, successes, p99_ms, answers
  FROM unnest($2::integer[], $3::text[], $4::float8[], $5::float8[], $6::integer[], $7::integer[],
              $8::integer[], $9::jsonb[])
    AS report (tenant_id, target, held_seconds, open_for_seconds, calls, successes, p99_ms, answers)
 ORDER BY tenant_id, target
ON CONFLICT (tenant_id, target, node_id) DO UPDATE
   SET held_until = excluded.held_until, since = excluded.since, calls = excluded.calls,
       successes = excluded.successes, p99_ms = excluded.p99_ms, answers = excluded.answers,
       reported_at = excluded.reported_at

-- name: trouble_over
DELETE FROM destination_trouble
 WHERE node_id = $1
   AND (tenant_id, target) IN (SELECT * FROM unnest($2::integer[], $3::text[]))

-- name: trouble_forget
DELETE FROM destination_trouble WHERE reported_at < clock() - make_interval(secs => $1)

-- name: trouble_all
SELECT tenant_id, target, max(held_until), min(since), sum(calls)::integer, sum(successes)::integer,
       max(p99_ms), (array_agg(answers ORDER BY reported_at DESC))[1]
  FROM destination_trouble
 WHERE reported_at > clock() - make_interval(secs => $1)
 GROUP BY tenant_id, target
 ORDER BY tenant_id, target
 LIMIT $2
