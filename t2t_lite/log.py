"""The library's logger. Only commands print; a program decides what it shows of the logger "t2t_lite"."""

import logging

LOG = logging.getLogger("t2t_lite")
