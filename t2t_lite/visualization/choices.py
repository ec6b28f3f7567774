"""The choices for attention pictures. Commands read this module for their flags, so it imports nothing."""

KINDS = ("encoder", "decoder", "cross")  # kinds of attention
FORMS = ("lines", "matrix", "overview")
# Maximum for an HTML file. With 20 tokens, 6 layers and 8 heads, a sentence takes half a megabyte.
MAX_SENTENCES = 20
