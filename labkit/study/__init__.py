"""From an experiment's file to its finished runs: what is compared, which runs are missing, who trains them."""
