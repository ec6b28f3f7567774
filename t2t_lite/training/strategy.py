"""Which devices train, and how a global batch is shared out among them."""

import tensorflow as tf

from t2t_lite.errors import UserError


def make_strategy(virtual_devices: int = 0) -> tf.distribute.Strategy:
    """Returns MirroredStrategy over all visible GPUs, or one device where there are fewer than two.

    Args:
      virtual_devices: if above 0, split the CPU into this many devices and use them; they share its cores, so this
        is for trying out what several GPUs will do.

    Raises:
      UserError: if TensorFlow already runs, so that the CPU cannot be split any more.
    """
    if virtual_devices:
        cpu = tf.config.list_physical_devices("CPU")[0]
        try:
            parts = [tf.config.LogicalDeviceConfiguration() for _ in range(virtual_devices)]
            tf.config.set_logical_device_configuration(cpu, parts)
        except RuntimeError as error:
            raise UserError("virtual devices must be asked for before TensorFlow is used in this process") from error
        devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    else:
        devices = [device.name for device in tf.config.list_logical_devices("GPU")]
    if len(devices) > 1:
        return tf.distribute.MirroredStrategy(devices)
    return tf.distribute.get_strategy()


def share_out(strategy: tf.distribute.Strategy, global_batches: tf.data.Dataset):
    """Gives every replica its equal share of each global batch.

    Args:
      strategy: the devices.
      global_batches: of dicts with "inputs" and "targets", int32 [rows, length], and any scalars.

    Returns:
      a distributed dataset of the same dicts with "tokens" added, float32: the real target pieces of the whole global
      batch. Replica r of n has rows r, r + n, ...; shares are filled up with empty rows, whose loss counts nothing.
    """
    replicas = strategy.num_replicas_in_sync

    def split(batch):
        shares = dict(batch)
        for name in ("inputs", "targets"):
            missing = -tf.shape(batch[name])[0] % replicas
            rows = tf.pad(batch[name], [[0, missing], [0, 0]])
            length = tf.shape(rows)[1]
            shares[name] = tf.transpose(tf.reshape(rows, [-1, replicas, length]), [1, 0, 2])  # [replicas, rows, length]
        shares["tokens"] = tf.math.count_nonzero(batch["targets"], dtype=tf.float32)
        for name in shares.keys() - {"inputs", "targets"}:
            shares[name] = tf.repeat(shares[name], replicas)
        return tf.data.Dataset.from_tensor_slices(shares)

    def dataset_of_host(context):
        del context
        # Replicas of one host take elements in turn, so the shares follow one another.
        return global_batches.flat_map(split).prefetch(2 * replicas)

    return strategy.distribute_datasets_from_function(dataset_of_host)


def first_replica(value):
    """Returns one replica's part of a distributed value, for what all replicas hold alike."""
    return value.values[0] if isinstance(value, tf.distribute.DistributedValues) else value
