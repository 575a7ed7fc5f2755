-- The keys that sign receipts, each in an envelope of the server's.

-- name: receipt_key_list
SELECT key_id, public_key, envelope FROM receipt_key ORDER BY number DESC LIMIT 1000

-- name: receipt_key_create
INSERT INTO receipt_key (key_id, public_key, envelope) VALUES ($1, $2, $3)

-- name: receipt_key_all
SELECT number, envelope FROM receipt_key WHERE number > $1 ORDER BY number LIMIT $2

-- name: receipt_key_replace
UPDATE receipt_key SET envelope = $2 WHERE number = $1 AND envelope = $3
