"""Write a dataset in the layouts that other tools read: `export_dataset`."""
