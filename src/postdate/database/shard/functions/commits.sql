-- Commits over several database nodes, where there are several.

-- Let none begin at this node before the end of the transaction, and wait for the commits under
-- way; return how many are prepared here all the same. The owner may lock the table in which Citus
-- writes them down: the writer must not change it.
CREATE OR REPLACE FUNCTION shard_hold_commits() RETURNS bigint LANGUAGE plpgsql
    SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    LOCK TABLE pg_catalog.pg_dist_transaction IN SHARE MODE;
    RETURN (SELECT count(*) FROM pg_catalog.pg_prepared_xacts
             WHERE database = current_database() AND starts_with(gid, 'citus_'));
END $$;
REVOKE EXECUTE ON FUNCTION shard_hold_commits FROM PUBLIC;
GRANT EXECUTE ON FUNCTION shard_hold_commits TO postdate_writer;
