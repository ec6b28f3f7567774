"""The functions of `import t2t_lite as t2t`. The commands call them, too. They import TensorFlow only when needed."""
