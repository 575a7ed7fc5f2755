"""Destinations: webhooks, queues and workers that jobs are delivered to."""
