-- Old jobs are removed by functions of the owner, in small sets: facts change for nobody else.

-- name: prune_jobs
SELECT removed, last FROM job_prune($1, $2, clock() - make_interval(days => $3), $4, $5)

-- name: prune_keys
SELECT removed, last FROM idempotency_prune($1, $2, $3, clock() - make_interval(days => $4), $5, $6)

-- name: prune_failed
SELECT job_purge($1, $2, $3::uuid[])
