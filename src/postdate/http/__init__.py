"""HTTP: the protocol, the shell around every endpoint, problem details. It knows no noun."""
