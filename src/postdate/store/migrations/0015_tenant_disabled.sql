-- A disabled tenant: none of its keys and tokens is taken, and it stands still.
ALTER TABLE tenant ADD COLUMN disabled_at timestamptz;
