"""Work directories, scratch folders, disk space, garbage collection."""
