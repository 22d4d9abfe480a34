"""The HCL reader: blocks, positions, references; nothing about meaning."""
