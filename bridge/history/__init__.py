"""What the broker, its topics and its groups did in the last hour, day and month, in a file of its own."""
