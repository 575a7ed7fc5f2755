-- Wake-ups: hints to other processes that something is due soon, never in a business transaction.

-- name: wakeup_send
SELECT pg_notify($1, $2)
