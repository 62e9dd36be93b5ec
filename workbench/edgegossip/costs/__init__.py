"""How long epochs take on which platforms under which load, without learning."""
