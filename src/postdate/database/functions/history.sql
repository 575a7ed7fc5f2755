-- History that is no longer asked for leaves by whole weeks.

-- Detach one partition. Refused for every caller: what is younger than two weeks, and what holds
-- anything that still has a timer. Money (payment, transfer, and outcome, which ends payments) only
-- leaves when it is meant by name.
CREATE OR REPLACE FUNCTION history_detach(child text, money boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    part history_partition;
BEGIN
    SELECT * INTO part FROM history_partition WHERE partition = child;
    IF part IS NULL THEN
        RAISE EXCEPTION 'there is no attached partition %', child USING ERRCODE = 'PD003';
    ELSIF part.until > clock() - interval '14 days' THEN
        RAISE EXCEPTION '% is younger than two weeks', child USING ERRCODE = 'PD003';
    ELSIF part.parent IN ('payment', 'transfer', 'outcome') AND NOT money THEN
        RAISE EXCEPTION '% holds money: say so to detach it', child USING ERRCODE = 'PD003';
    ELSIF part.parent <> 'transfer' AND EXISTS (
            SELECT FROM generate_series(0, 63) AS buckets (bucket)
              JOIN timer t ON t.bucket = buckets.bucket
               AND t.subject >= part.from_id AND t.subject < part.to_id) THEN
        RAISE EXCEPTION '% holds what still has a timer', child USING ERRCODE = 'PD003';
    END IF;
    IF part.parent = 'seal' THEN
        EXECUTE format(
            'INSERT INTO chain_start AS known (bucket, tenant_id, position, hash)
             SELECT DISTINCT ON (tenant_id) bucket, tenant_id, position + cardinality(kinds) - 1,
                    hash FROM %I ORDER BY tenant_id, position DESC
             ON CONFLICT (bucket, tenant_id) DO UPDATE
                SET position = excluded.position, hash = excluded.hash
              WHERE excluded.position > known.position', child);
    END IF;
    EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', part.parent, child);
    INSERT INTO history (partition, parent, from_id, to_id)
        VALUES (child, part.parent, part.from_id, part.to_id);
END $$;

-- Drop a partition that was detached before.
CREATE OR REPLACE FUNCTION history_drop(child text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE history SET dropped_at = clock() WHERE partition = child AND dropped_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION '% is not detached', child USING ERRCODE = 'PD003';
    END IF;
    EXECUTE format('DROP TABLE %I', child);
END $$;

-- The first id that nothing detached of these tables can hold. A row counts that names a week by
-- its Monday and its bounds, of which nothing is attached, and that is older than two weeks: no
-- younger one is ever detached. Any other is forged.
CREATE OR REPLACE FUNCTION history_floor(parents text[]) RETURNS uuid
    LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT coalesce((
        SELECT h.to_id FROM history h
         WHERE h.parent = ANY (parents)
           AND h.to_id <= uuid_floor(clock() - interval '14 days')
           AND h.to_id = uuid_floor(uuid_instant(h.from_id) + interval '168 hours')
           AND h.partition = h.parent
               || to_char(uuid_instant(h.from_id) AT TIME ZONE 'UTC', '_YYYYMMDD')
           AND NOT EXISTS (SELECT FROM history_partition p WHERE p.partition = h.partition)
         ORDER BY h.to_id DESC LIMIT 1), uuid_floor('epoch'))
$$;

REVOKE EXECUTE ON FUNCTION history_detach, history_drop, history_floor FROM PUBLIC;
GRANT EXECUTE ON FUNCTION history_floor TO postdate_reader, postdate_writer;
GRANT EXECUTE ON FUNCTION history_detach, history_drop TO postdate_writer;
