"""The commands. They only parse arguments and print. Installed as `t2t_lite.bin`."""
