"""The built-in problems, installed as `t2t_lite.problems`."""

if __name__ != "t2t_lite.problems":
    raise ImportError("import this folder as t2t_lite.problems (run pip install -e . first)")
