"""How fast labkit is, beside what else there is, on the machine at hand."""
