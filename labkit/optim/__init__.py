"""Optimizers, schedules, and the parameters as an optimizer sees them."""
