-- The last time at which a settler trusted the database's clock.

-- name: settlement_clock_read
SELECT at, confirmations FROM settlement_clock

-- name: settlement_clock_record
SELECT settlement_clock_record($1)

-- name: settlement_clock_confirm
UPDATE settlement_clock SET at = clock(), confirmations = confirmations + 1
