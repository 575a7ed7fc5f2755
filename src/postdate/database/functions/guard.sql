-- What must hold for every writer: triggers that refuse, rights and row-level security.

-- Facts are immutable, no matter who writes. Only the owner, inside a prune, may remove old ones.
CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('postdate.prune', true) = 'on'
       AND current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% on % refused: facts are only ever inserted', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'PD001';
END $$;

-- What was skipped may be backfilled later; what became a job or payment never changes again, no
-- matter who writes.
CREATE OR REPLACE FUNCTION occurrence_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'occurrence % of schedule % ran and does not change', OLD.occurrence_id,
        OLD.schedule_id USING ERRCODE = 'PD003';
END $$;

-- Test mode is decided when a tenant is created: no live one is ever played with, no matter who
-- writes.
CREATE OR REPLACE FUNCTION tenant_keeps_mode() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the tenant % keeps its mode', OLD.name USING ERRCODE = 'PD001';
END $$;

-- No clock goes back.
CREATE OR REPLACE FUNCTION test_clock_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the test clock of tenant % does not go back', OLD.tenant_id
        USING ERRCODE = 'PD001';
END $$;

-- Accept what a client asked for in its own transaction, just before that commits: locks are held
-- for as long as a commit takes, however long the transaction was. The digests that are sealed are
-- taken of UTF-8, whatever the client speaks.
CREATE OR REPLACE FUNCTION client_commit() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path FROM CURRENT SET client_encoding = 'UTF8'
    SET standard_conforming_strings = on SET extra_float_digits = 1 SET lock_timeout = '500ms'
    SET enable_seqscan = off AS $$
BEGIN
    -- By its key: a search for whatever is left would read the deleted rows again for each of them.
    IF EXISTS (SELECT FROM client_request r WHERE r.transaction = NEW.transaction
                  AND r.subject = NEW.subject AND r.number = NEW.number) THEN
        PERFORM client_accept();
    END IF;
    RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION client_commit FROM PUBLIC;

-- Turn a table into one of ours: row-level security forced, rights given, facts guarded.
-- Rights of a fact: insert and select. A definition may also be changed and deleted.
CREATE OR REPLACE FUNCTION table_guard(target regclass, fact boolean) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    partitioned boolean := EXISTS (SELECT FROM pg_partitioned_table WHERE partrelid = target);
    plain text := (SELECT relname FROM pg_class WHERE oid = target);
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', target);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', target);
    EXECUTE format('CREATE POLICY owner_all ON %s TO CURRENT_USER USING (true) WITH CHECK (true)',
                   target);
    EXECUTE format('CREATE POLICY writer_all ON %s TO postdate_writer USING (true) '
                   'WITH CHECK (true)', target);
    EXECUTE format('CREATE POLICY reader_own ON %s FOR SELECT TO postdate_reader '
                   'USING (tenant_id = current_tenant())', target);
    EXECUTE format('GRANT SELECT ON %s TO postdate_reader', target);
    IF fact THEN
        EXECUTE format('GRANT SELECT, INSERT ON %s TO postdate_writer', target);
        EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE OR DELETE ON %s '
                       'FOR EACH ROW EXECUTE FUNCTION refuse_change()', plain || '_fact', target);
        EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %s FOR EACH STATEMENT '
                       'EXECUTE FUNCTION refuse_change()', plain || '_fact_truncate', target);
    ELSE
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO postdate_writer', target);
    END IF;
    IF partitioned THEN
        EXECUTE format('CREATE TABLE %I PARTITION OF %s DEFAULT', plain || '_default', target);
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', plain || '_default');
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', plain || '_default');
        EXECUTE format('CREATE POLICY owner_all ON %I TO CURRENT_USER USING (true) '
                       'WITH CHECK (true)', plain || '_default');
    END IF;
END $$;

-- The locks between transactions of ours. An advisory lock is open to every login; these are
-- tables, which only the roles of nodes may lock. A sharded PostgreSQL has its own at each node.
-- halt_lock is empty and locked as a whole, which costs what an advisory lock costs: moving
-- money shares it. A row of named_lock is for what happens seldom.
CREATE OR REPLACE FUNCTION lock_tables_ensure() RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    CREATE TABLE IF NOT EXISTS halt_lock ();
    CREATE TABLE IF NOT EXISTS named_lock (
        name text COLLATE "C" NOT NULL, number integer NOT NULL, PRIMARY KEY (name, number));
    INSERT INTO named_lock SELECT 'job_prune', generate_series(0, 63) ON CONFLICT DO NOTHING;
    GRANT UPDATE ON halt_lock TO postdate_writer;
    GRANT SELECT, INSERT, UPDATE ON named_lock TO postdate_writer;
END $$;

-- What a file of functions leaves to everybody is for the roles of nodes: a client's role may call
-- what it was given by name, and nothing else.
CREATE OR REPLACE FUNCTION functions_guard() RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    open_to_all regprocedure;
BEGIN
    FOR open_to_all IN SELECT p.oid FROM pg_proc p
                        WHERE p.pronamespace = current_schema()::regnamespace
                          AND has_function_privilege('public', p.oid, 'EXECUTE') LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO postdate_writer, postdate_reader',
                       open_to_all);
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', open_to_all);
    END LOOP;
END $$;

REVOKE EXECUTE ON FUNCTION table_guard, lock_tables_ensure, functions_guard FROM PUBLIC;
