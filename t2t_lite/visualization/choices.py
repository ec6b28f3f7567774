"""The choices for attention pictures. Commands import this module for their flags, so it imports nothing."""

KINDS = ("encoder", "decoder", "cross")  # kinds of attention
FORMS = ("lines", "matrix", "overview")
# Maximum for an HTML file. A sentence of 20 tokens takes half a megabyte with 6 layers and 8 heads.
MAX_SENTENCES = 20
