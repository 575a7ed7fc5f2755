-- The server's clock, and the last time of it that was believed.

-- name: clock_watch_read
SELECT machine_clock() AS machine, at, watched_since, confirmations, doubt FROM clock_watch

-- name: clock_watch_record
SELECT clock_watch_record($1, $2, $3, $4)

-- name: clock_watch_confirm
UPDATE clock_watch SET at = machine_clock(), confirmations = confirmations + 1, doubt = NULL
 WHERE doubt IS NOT NULL RETURNING true
