"""The commands, which only parse arguments and print. This folder is installed as `t2t_lite.bin`."""
