"""Who goes over the rows of a table: this process, chunks of files, or a Dask cluster."""
