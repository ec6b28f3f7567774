"""The commands: only argument parsing and printing. Installed as `t2t_lite.bin`."""
