"""One change of many stacks: select, order, run in waves; the rules that every caller needs."""
