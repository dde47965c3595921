"""Where files are kept: a folder of this machine or a prefix of an object store, behind one small protocol."""
