"""Pages a person looks at: no script, no second file, nothing from outside."""
