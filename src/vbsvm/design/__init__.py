"""From the user's columns to the rows of the model's design."""
