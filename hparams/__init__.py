"""The built-in hyperparameter sets, installed as `t2t_lite.hparams`."""

if __name__ != "t2t_lite.hparams":
    raise ImportError("import this folder as t2t_lite.hparams (run pip install -e . first)")
