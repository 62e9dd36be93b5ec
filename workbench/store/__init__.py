"""How results are kept: whole or not at all, with what made them and what they rest on."""
