"""Reports: records in, an answer out. Reads only what the driver and the workers wrote; never imports a model."""
