"""Events, their chain, and the auditor's selection."""
