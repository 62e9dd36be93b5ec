"""DLion: training without a server across unequal, changing micro-clouds (Hong, Chandra 2021)."""
