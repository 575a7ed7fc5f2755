-- The time of the database.

-- name: clock_now
SELECT clock()
