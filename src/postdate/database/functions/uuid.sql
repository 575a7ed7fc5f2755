-- What an id tells: ids are UUIDv7 and carry the instant and the bucket.

-- The smallest UUIDv7 of an instant: the bound between two partitions.
CREATE OR REPLACE FUNCTION uuid_floor(at timestamptz) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT rpad(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0'), 32, '0')::uuid$$;

-- The instant of a UUIDv7, to the millisecond.
CREATE OR REPLACE FUNCTION uuid_instant(id uuid) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint
                          / 1000.0)$$;

-- The bucket that an id carries, the same as model.ids.bucket_of.
CREATE OR REPLACE FUNCTION bucket_of(id uuid) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    'SELECT (get_byte(uuid_send(id), 7) & 63)::smallint';
