-- Checks of what clients give to enqueue and schedule_payment, as strict as those of the API.

-- One member of a retry policy: a number within its bounds.
CREATE OR REPLACE FUNCTION client_check_number(
    name text, given jsonb, low numeric, high numeric, whole boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF given IS NULL OR given = 'null' THEN
        RETURN;
    END IF;
    IF jsonb_typeof(given) <> 'number' OR NOT given::numeric BETWEEN low AND high
       OR (whole AND given::numeric <> trunc(given::numeric)) THEN
        PERFORM client_wrong(name, format('%s is a%s number from %s to %s.', name,
                                          CASE WHEN whole THEN ' whole' ELSE '' END, low, high));
    END IF;
END $$;

CREATE OR REPLACE FUNCTION client_check_members(name text, given jsonb, known text[]) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    stray text;
BEGIN
    IF jsonb_typeof(given) <> 'object' THEN
        PERFORM client_wrong(name, format('%s is a JSON object.', name));
    END IF;
    SELECT k INTO stray FROM jsonb_object_keys(given) AS k WHERE k <> ALL (known) LIMIT 1;
    IF stray IS NOT NULL THEN
        PERFORM client_refuse(422, 'unknown_field', format('%s has no member %s.', name, stray),
            name || '.' || stray, format('Allowed: %s.', array_to_string(known, ', ')));
    END IF;
END $$;

CREATE OR REPLACE FUNCTION client_check_text(name text, given text, low integer, high integer)
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF given IS NOT NULL AND NOT length(given) BETWEEN low AND high THEN
        PERFORM client_wrong(name, format('%s has %s to %s characters.', name, low, high));
    END IF;
END $$;

-- As deep as a body of the API may nest, less the body itself: a reader must get to the end of it.
CREATE OR REPLACE FUNCTION client_check_depth(name text, given jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    most constant integer := 31;
    brackets text := translate(given::text, '{}', '[]');
BEGIN
    IF given IS NULL OR length(brackets) - length(replace(brackets, '[', '')) <= most THEN
        RETURN;
    END IF;
    brackets := regexp_replace(brackets, '"([^"\\]|\\.)*"', '', 'g');
    brackets := regexp_replace(brackets, '[^][]', '', 'g');
    FOR level IN 1..most LOOP
        brackets := replace(brackets, '[]', '');
    END LOOP;
    IF brackets <> '' THEN
        PERFORM client_refuse(422, 'body_too_deep',
            format('%s nests deeper than %s levels.', name, most), name);
    END IF;
END $$;

-- An instant that has a year of our era: others are not written as the API writes instants.
CREATE OR REPLACE FUNCTION client_check_instant(name text, given timestamptz) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF NOT given BETWEEN '0001-01-02 00:00Z' AND '9999-12-30 00:00Z' THEN
        PERFORM client_wrong(name, format('%s is an instant of the years 1 to 9999.', name));
    END IF;
END $$;

CREATE OR REPLACE FUNCTION client_check_retry(retry jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF retry IS NULL THEN
        RETURN;
    END IF;
    PERFORM client_check_members('retry', retry, ARRAY['max_attempts', 'backoff',
        'initial_seconds', 'max_seconds', 'jitter', 'max_age_seconds', 'on_unknown']);
    PERFORM client_check_number('retry.max_attempts', retry -> 'max_attempts', 1, 100, true);
    PERFORM client_check_number('retry.initial_seconds', retry -> 'initial_seconds', 0.01, 86400);
    PERFORM client_check_number('retry.max_seconds', retry -> 'max_seconds', 0.01, 604800);
    PERFORM client_check_number('retry.jitter', retry -> 'jitter', 0, 1);
    PERFORM client_check_number('retry.max_age_seconds', retry -> 'max_age_seconds', 0.000001,
                                31622400);
    IF retry -> 'backoff' <> ALL (ARRAY['"exponential"', '"linear"', '"fixed"',
                                        'null']::jsonb[]) THEN
        PERFORM client_wrong('retry.backoff', 'retry.backoff is exponential, linear or fixed.');
    END IF;
    IF retry -> 'on_unknown' <> ALL (ARRAY['"retry"', '"hold"', 'null']::jsonb[]) THEN
        PERFORM client_wrong('retry.on_unknown', 'retry.on_unknown is retry or hold.');
    END IF;
END $$;

REVOKE EXECUTE ON FUNCTION client_check_number, client_check_members, client_check_text,
    client_check_depth, client_check_instant, client_check_retry FROM PUBLIC;
