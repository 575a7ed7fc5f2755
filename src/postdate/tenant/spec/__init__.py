"""What it is: types and rules, without I/O."""
