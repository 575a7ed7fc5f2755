"""Read settings, wire the stages, speak to the operator."""
