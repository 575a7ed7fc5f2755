-- The round of proofs: whose turn it is, and how far each chain is proved.

-- name: proof_take
-- Take the next bucket if the pause since the last one is over; no row while it is not.
UPDATE proof_round SET bucket = (bucket + 1) % 64, taken_at = clock(),
       began_at = CASE WHEN (bucket + 1) % 64 = 0 THEN (SELECT clock()) ELSE began_at END,
       round = round + ((bucket + 1) % 64 = 0)::integer
 WHERE one AND taken_at <= clock() - make_interval(secs => $1::float8)
RETURNING bucket, extract(epoch FROM taken_at - began_at)::float8 AS seconds, round

-- name: proof_chains
-- The chains of some buckets, with how far each is proved.
SELECT c.tenant_id, c.position, c.hash, p.position, p.hash, p.walked, p.walked_hash
  FROM chain c LEFT JOIN chain_proof p ON p.bucket = c.bucket AND p.tenant_id = c.tenant_id
 WHERE c.bucket = ANY ($1::smallint[]) ORDER BY c.tenant_id

-- name: proof_remember
INSERT INTO chain_proof (bucket, tenant_id, position, hash, walked, walked_hash)
VALUES (tenant_bucket($1), $1, $2, $3, $4, $5)
ON CONFLICT (bucket, tenant_id) DO UPDATE
   SET position = excluded.position, hash = excluded.hash, walked = excluded.walked,
       walked_hash = excluded.walked_hash
