-- Events: what is sealed of them, and what is shown.

-- The digest of everything an event says, the same whatever a session's settings are.
CREATE OR REPLACE FUNCTION event_digest(e event) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT sha256(convert_to(ROW(e.bucket, e.tenant_id, e.subject, e.event_id,
                                 encode(timestamptz_send(e.time), 'hex'), e.type, e.actor,
                                 e.data)::text, 'UTF8'))
$$;

-- The data of an event as it is shown. The end of a payment is the busiest event and is stored
-- without any: its id is that of the transfer, and the payment says the rest.
CREATE OR REPLACE FUNCTION event_shown(e event) RETURNS jsonb
    LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT coalesce(e.data, (
        SELECT jsonb_build_object('transfer_id', e.event_id, 'from_account_id', p.from_account,
                                  'to_account_id', p.to_account, 'amount', p.amount)
          FROM payment p
         WHERE e.type = 'payment.completed' AND p.bucket = e.bucket
           AND p.tenant_id = e.tenant_id AND p.payment_id = e.subject))
$$;
