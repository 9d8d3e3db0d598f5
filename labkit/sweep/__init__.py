"""Sweeps: a space of run specs searched trial by trial, and arms that are compared each at its own best."""
