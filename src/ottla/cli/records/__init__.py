"""Records in and out: `produce`, `consume`, `records`, `export`, `import`, `sql`."""
