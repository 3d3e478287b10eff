"""Values of records as columns: JSON and Avro, decoded a batch at a time, and what cannot be."""
