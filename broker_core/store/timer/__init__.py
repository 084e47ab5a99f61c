"""Timer messages: the timer wheel, the timer log, and what is due."""
