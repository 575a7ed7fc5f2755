"""Turn HTTP into calls on intake and views, and their outcomes into answers."""
