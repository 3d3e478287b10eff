"""The formats of tables: Delta Lake and Apache Iceberg, behind one interface."""
