-- Checks of what clients give to enqueue and schedule_payment. What a field may be stands in one
-- place, the structs of the API: `postdate migrate` writes their JSON Schema into client_schema
-- (schema/client_rules.py). client_check refuses by it, with the codes and sentences of the API.

-- Refuse the first part of a value that its schema does not admit, by the part's name.
CREATE OR REPLACE FUNCTION client_check(schema jsonb, given jsonb, field text DEFAULT NULL)
    RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kind constant text := jsonb_typeof(given);
    types constant jsonb := schema -> 'type';
    wrong text;
BEGIN
    IF types IS NULL THEN
        RETURN;
    ELSIF NOT (types ? kind OR (kind = 'number' AND types ? 'integer' AND given::text !~ '\.')) THEN
        PERFORM client_wrong(field, format('`%s`: Expected `%s`, got `%s`.', field,
            client_type_words(schema), client_type_words(jsonb_build_object('type', CASE
                WHEN kind = 'number' AND given::text !~ '\.' THEN 'integer' ELSE kind END))));
    ELSIF kind = 'string' THEN
        wrong := client_check_text(schema, given #>> '{}');
    ELSIF kind = 'number' THEN
        wrong := client_check_number(schema, given::numeric);
    ELSIF kind = 'object' THEN
        PERFORM client_check_object(schema, given, field);
        RETURN;
    END IF;
    IF wrong IS NOT NULL THEN
        PERFORM client_wrong(field, coalesce(schema ->> 'errorMessage',
                                             format('`%s`: %s.', field, wrong)));
    END IF;
END $$;

-- What is wrong with a text. In PL/pgSQL, like the other checks: it begins at a fifth of what a
-- function in SQL costs that cannot be folded in.
CREATE OR REPLACE FUNCTION client_check_text(schema jsonb, given text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE
        WHEN length(given) < (schema -> 'minLength')::integer
            THEN format('Expected `str` of length >= %s', schema ->> 'minLength')
        WHEN length(given) > (schema -> 'maxLength')::integer
            THEN format('Expected `str` of length <= %s', schema ->> 'maxLength')
        WHEN given !~ (schema ->> 'pattern')
            THEN format('Expected `str` matching regex ''%s''',
                        replace(schema ->> 'pattern', '\', '\\'))
        WHEN NOT schema -> 'enum' ? given
            THEN format('`%s` is not one of %s', left(given, 64), client_list(schema -> 'enum'))
        WHEN schema ? 'format'
             AND given !~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$'
            THEN 'Invalid RFC3339 encoded datetime' END;
END $$;

-- What is wrong with a number.
CREATE OR REPLACE FUNCTION client_check_number(schema jsonb, given numeric) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    bound constant text := CASE
        WHEN given < (schema -> 'minimum')::numeric THEN '>= ' || (schema ->> 'minimum')
        WHEN given > (schema -> 'maximum')::numeric THEN '<= ' || (schema ->> 'maximum')
        WHEN given <= (schema -> 'exclusiveMinimum')::numeric
            THEN '> ' || (schema ->> 'exclusiveMinimum')
        WHEN given >= (schema -> 'exclusiveMaximum')::numeric
            THEN '< ' || (schema ->> 'exclusiveMaximum') END;
BEGIN
    IF bound IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN CASE WHEN schema -> 'type' ? 'integer' THEN format('Expected `int` %s', bound)
                ELSE format('Expected `float` %s%s', bound,
                            CASE WHEN bound !~ '\.' THEN '.0' END) END;
END $$;

-- The members of an object, each by its own schema. One whose members are not declared may be any
-- object of a size.
CREATE OR REPLACE FUNCTION client_check_object(schema jsonb, given jsonb, field text) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    fields jsonb := schema -> 'properties';
    required jsonb := schema -> 'required';
    tag constant text := schema ->> 'tag';
    name text;
    part jsonb;
BEGIN
    IF octet_length(given::text) > (schema ->> 'maxBytes')::integer THEN
        PERFORM client_wrong(field, schema ->> 'errorMessage');
    ELSIF tag IS NOT NULL THEN
        IF NOT coalesce(schema -> 'kinds' ? (given ->> tag), false) THEN
            PERFORM client_wrong(concat_ws('.', field, tag), CASE jsonb_typeof(given -> tag)
                WHEN 'string' THEN format('`%s.%s`: `%s` is not one of %s.', field, tag,
                                          left(given ->> tag, 64), client_list(schema -> 'tags'))
                ELSE format('`%s.%s` is one of %s.', field, tag, client_list(schema -> 'tags'))
                END);
        END IF;
        fields := schema #> ARRAY['kinds', given ->> tag, 'properties'];
        required := schema #> ARRAY['kinds', given ->> tag, 'required'];
    ELSIF fields IS NULL THEN
        RETURN;
    END IF;
    FOR place IN 0 .. jsonb_array_length(required) - 1 LOOP
        IF NOT given ? (required ->> place) THEN
            name := concat_ws('.', field, required ->> place);
            PERFORM client_wrong(name, format('`%s` is required.', name));
        END IF;
    END LOOP;
    FOR name, part IN SELECT m.key, m.value FROM jsonb_each(given) AS m LOOP
        IF NOT fields ? name THEN
            PERFORM client_refuse(422, 'unknown_field',
                format('`%s` is not known.', concat_ws('.', field, name)),
                concat_ws('.', field, name), format('Allowed: %s.', (
                    SELECT string_agg(k, ', ' ORDER BY k) FROM jsonb_object_keys(fields) AS k)));
        END IF;
        PERFORM client_check(fields -> name, part, concat_ws('.', field, name));
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION client_list(given jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS
    $$SELECT string_agg(each, ', ') FROM jsonb_array_elements_text(given) AS each$$;

-- The types of a schema in the words of the API.
CREATE OR REPLACE FUNCTION client_type_words(schema jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT string_agg(CASE WHEN t = 'string' AND schema ? 'format' THEN 'datetime'
                      ELSE coalesce('{"string": "str", "integer": "int", "number": "float",
                                      "boolean": "bool"}'::jsonb ->> t, t) END, ' | ')
      FROM jsonb_array_elements_text(CASE jsonb_typeof(schema -> 'type') WHEN 'array'
               THEN schema -> 'type' ELSE jsonb_build_array(schema -> 'type') END) AS t
$$;

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

-- An instant as a body of the API has it. One without a year of our era stays as PostgreSQL writes
-- it, which no schema admits.
CREATE OR REPLACE FUNCTION client_instant(given timestamptz) RETURNS text
    LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN given BETWEEN '0001-01-02 00:00Z' AND '9999-12-30 00:00Z'
                THEN to_char(given AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
                ELSE 'not ' || given END
$$;

REVOKE EXECUTE ON FUNCTION client_check, client_check_text, client_check_number,
    client_check_object, client_list, client_type_words, client_check_depth, client_instant
    FROM PUBLIC;
