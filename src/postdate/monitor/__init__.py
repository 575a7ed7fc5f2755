"""What operators watch: activity, vital signs, problems, nodes."""
