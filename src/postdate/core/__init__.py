"""What every room uses: ids, money, settings, identity, log lines."""
