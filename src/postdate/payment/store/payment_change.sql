-- Changes to an open payment. The transaction that locks its timer first decides its outcome.

-- name: payment_change_lock
-- Waits for a settlement under way; if that ended the payment, there is no row any more.
SELECT bucket, tenant_id, subject, due_at, token, clock() AS at, ready_at,
       due_at = 'infinity' AS parked, lane_id, revision
  FROM timer
 WHERE bucket = $1 AND subject = $2 AND lane_id = ANY ($3)
   AND ($4::integer IS NULL OR tenant_id = $4)
   FOR UPDATE

-- name: payment_change_move
UPDATE timer SET due_at = $3, revision = revision + 1, claimed_at = NULL, ready_at = NULL
 WHERE bucket = $1 AND subject = $2

-- name: payment_change_end
INSERT INTO outcome (bucket, tenant_id, subject, attempt, due_at, status, code, error, finished_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, clock())

-- name: payment_change_outcome
SELECT tenant_id, attempt, status, transfer_id, execution_id, code, error
  FROM outcome WHERE bucket = $1 AND subject = $2
