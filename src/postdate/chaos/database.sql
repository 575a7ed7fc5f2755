-- What only `postdate chaos` asks: everything that is left after a run, and two ways to disturb it.

-- name: database_tenants
SELECT tenant_id, name FROM tenant ORDER BY tenant_id

-- name: database_accounts
SELECT tenant_id, account_id, balance, held, version, floor FROM account

-- name: database_entries
SELECT tenant_id, transfer_id, account_id, amount, balance, version, payment_id FROM entry

-- name: database_payments
SELECT tenant_id, payment_id, from_account, to_account, amount, hold, due_at, schedule_id
  FROM payment

-- name: database_jobs
SELECT tenant_id, job_id, due_at, effective_at, schedule_id, destination ->> 'type' AS type FROM job

-- name: database_outcomes
SELECT tenant_id, subject, status, attempt, due_at, started_at, finished_at, transfer_id
  FROM outcome

-- name: database_attempts
SELECT tenant_id, subject, attempt, status, due_at, started_at, finished_at FROM attempt

-- name: database_timers
SELECT tenant_id, lane_id, subject, due_at, claimed_at IS NOT NULL AS claimed FROM timer

-- name: database_occurrences
SELECT tenant_id, schedule_id, scheduled_for, status, cause, subject FROM occurrence

-- name: database_open
-- How many payments and jobs have not ended. Lanes 1 and 2 are schedules and deliveries of events.
SELECT count(*)::integer FROM timer WHERE lane_id NOT IN (1, 2)

-- name: database_end_sessions
SELECT count(pg_terminate_backend(pid))::integer FROM (
    SELECT pid FROM pg_stat_activity
     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
     ORDER BY random() LIMIT $1) AS some

-- name: database_hold_account
SELECT count(*)::integer FROM (
    SELECT FROM account WHERE bucket = $2 LIMIT $1 FOR UPDATE SKIP LOCKED) AS held

-- name: database_hold_timer
SELECT count(*)::integer FROM (
    SELECT FROM timer WHERE bucket = $2 LIMIT $1 FOR UPDATE SKIP LOCKED) AS held
