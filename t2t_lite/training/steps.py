"""One training step and one evaluation step, over all devices."""

import tensorflow as tf

from t2t_lite.layers.dropout import CallSeeds
from t2t_lite.training.loss import LossSums, smoothed_cross_entropy


def make_train_step(strategy, model, optimizer, element_spec, random_seed: int):
    """Returns a function that makes one optimizer step on one global batch.

    Args:
      strategy: the devices.
      model: a built `Seq2SeqModel`.
      optimizer: a built Keras optimizer.
      element_spec: of the batches of `share_out`.
      random_seed: with the step's number, determines dropout.

    Returns:
      function of a batch of `share_out` -> `LossSums` over the global batch.
    """
    smoothing = model.hparams.label_smoothing

    def on_replica(batch):
        # A pure function of (seed, step, replica): a run that was stopped goes on with the same masks.
        seed = tf.stack([tf.constant(random_seed, tf.int64), tf.cast(optimizer.iterations, tf.int64)])
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        seed = tf.bitcast(tf.random.experimental.stateless_fold_in(tf.cast(seed, tf.int32), replica), tf.uint32)
        with tf.GradientTape() as tape:
            logits = model(batch["inputs"], batch["targets"], seeds=CallSeeds(seed))
            sums = smoothed_cross_entropy(logits, batch["targets"], smoothing)
            share = sums.smoothed / batch["tokens"]
        gradients = tape.gradient(share, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return sums

    return _over_replicas(strategy, on_replica, element_spec)


def make_eval_step(strategy, model, element_spec):
    """Returns a function of a batch of `share_out` -> `LossSums` over the global batch, without dropout."""
    smoothing = model.hparams.label_smoothing

    def on_replica(batch):
        return smoothed_cross_entropy(model(batch["inputs"], batch["targets"]), batch["targets"], smoothing)

    return _over_replicas(strategy, on_replica, element_spec)


def _over_replicas(strategy, on_replica, element_spec):
    @tf.function(input_signature=[element_spec])
    def step(batch):
        per_replica = strategy.run(on_replica, args=(batch,))
        return LossSums(*(strategy.reduce("SUM", value, axis=None) for value in per_replica))

    return step
