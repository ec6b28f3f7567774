"""The private names of TensorFlow and Keras that training uses exist, and do what they are used for."""

import keras
import tensorflow as tf

from t2t_lite.training import devices, optimizers


def test_each_strategy_numbers_its_collectives_from_another_key():
    before = tf.distribute.MirroredStrategy._collective_key_base
    devices.number_collectives_anew()
    assert tf.distribute.MirroredStrategy._collective_key_base > before


def test_workers_have_as_many_cpu_devices_as_asked_for():
    extended = devices.CollectiveAllReduceExtended
    original = extended._initialize_local_devices
    with devices.cpus_as_devices(2):
        found, kind = extended._initialize_local_devices(None, None, "/job:worker/task:0")
    assert (found, kind) == (("/job:worker/task:0/device:CPU:0", "/job:worker/task:0/device:CPU:1"), "CPU")
    with devices.cpus_as_devices(0):
        assert extended._initialize_local_devices is original


def test_a_schedule_of_an_optimizer_is_seen():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    assert optimizers.has_schedule(keras.optimizers.SGD(schedule))
    assert not optimizers.has_schedule(keras.optimizers.SGD(0.1))


def test_keras_optimizers_have_the_methods_that_update_all_variables():
    assert [hasattr(keras.optimizers.Optimizer, name) for name in optimizers.OF_ALL_VARIABLES] == [True] * 3
