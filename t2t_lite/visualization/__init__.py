"""Draws attention pictures, and provides the common code of charts and HTML files.

`attention_map` and `head_statistics` compute the numbers with NumPy. matplotlib draws them as SVG and PNG
(`attention_drawing`). static/attention.js draws them in HTML files, reports and the page of the server.
"""
