"""Connections, migrations, SQL functions, shards and the embedded server."""
