"""Pages a person looks at."""
