"""What client and server both say: error codes, problem bodies, signatures of webhooks."""
