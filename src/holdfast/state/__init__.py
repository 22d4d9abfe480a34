"""What a state holds, object by object, and edits of its record. No input or output: bytes in, bytes out."""
