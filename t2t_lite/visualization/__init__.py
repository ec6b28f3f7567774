"""Draws attention pictures, and provides the code that all charts and HTML files share.

`attention_map` computes the numbers with NumPy. `attention_drawing` draws them with matplotlib as SVG, PNG or PDF, and
static/attention.js draws them in HTML files, reports and the server's page.
"""
