-- Payload keys: what encrypts the payloads of tenants that ask for it.
--
-- Payloads are facts and never change, so they are sealed with a key of their tenant; that key is
-- in an envelope of the server's own, and rotation writes only the envelope anew.
CREATE TABLE payload_key (
    tenant_id  integer PRIMARY KEY REFERENCES tenant,
    envelope   bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock()
);
SELECT table_guard('payload_key', fact => false);
