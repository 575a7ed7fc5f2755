"""What an operator reads and maintains: nodes, partitions, vital signs."""
