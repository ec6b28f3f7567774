"""The functions of `import t2t_lite as t2t`, which the commands call, too. They import TensorFlow when they need it."""
