"""Write a dataset in layouts that other tools read: `export_dataset`."""
