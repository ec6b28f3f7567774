"""The built-in problems, one file per family. Installed as `t2t_lite.problems`."""

if __name__ != "t2t_lite.problems":
    raise ImportError("import this folder as t2t_lite.problems (run pip install -e . first)")
