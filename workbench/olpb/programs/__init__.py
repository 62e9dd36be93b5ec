"""An edge server and its nodes carry back-propagation out, with or without learning."""
