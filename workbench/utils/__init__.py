"""What all packages use: checks of input, atomic writes, parallel calls, the instruction set."""
