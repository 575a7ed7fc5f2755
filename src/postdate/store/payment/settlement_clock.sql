-- The last time at which a settler trusted the database's clock.

-- name: settlement_clock_read
SELECT at FROM settlement_clock

-- name: settlement_clock_record
SELECT settlement_clock_record()
