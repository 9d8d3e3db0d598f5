"""Training: what is computed (run), how it is executed (Runtime), and the loop that does it."""
