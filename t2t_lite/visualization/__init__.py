"""Pictures: of attention, and what charts and HTML files have in common.

The numbers come first (`attention_map`, `head_statistics`: NumPy). matplotlib draws them as SVG and PNG
(`attention_drawing`), static/attention.js in HTML files, reports and the page of the server.
"""
