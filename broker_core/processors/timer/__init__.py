"""Timer messages: sent, delivered at their time, and recalled."""
