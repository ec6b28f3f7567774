"""The commands: argument parsing and printing only. Installed as `t2t_lite.bin`."""
