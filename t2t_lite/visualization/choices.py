"""What pictures of attention can show. Commands read it for their flags, so it imports nothing."""

KINDS = ("encoder", "decoder", "cross")  # of attention
FORMS = ("lines", "matrix", "overview")
# Of an HTML file: with 20 tokens, 6 layers and 8 heads, a sentence takes half a megabyte.
MAX_SENTENCES = 20
