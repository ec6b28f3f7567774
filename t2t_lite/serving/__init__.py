"""A server for trained models, with LibreTranslate's API and its own API. See docs/serving.md.

sockets -> server.py -> limits.py (limits, log) -> libretranslate.py, v1.py -> models.py -> batching.py -> engine
"""
