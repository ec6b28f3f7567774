"""The devices under JAX: their description, and the rates of matrix products and all-reduces."""

import functools
import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def describe() -> dict[str, object]:
    """Returns the devices and the library versions."""
    devices = jax.devices()
    return {
        "devices": [f"{device.platform}: {device.device_kind}" for device in devices],
        "jax": jax.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
    }


def memory_limit() -> int | None:
    """Returns the memory that JAX may use on a device, in bytes; None if it does not tell."""
    stats = jax.devices()[0].memory_stats()
    return stats.get("bytes_limit") if stats else None


def products(size: int) -> Iterator[tuple[str, float]]:
    """Yields (name, TFLOP/s) for the product of two random square matrices in each precision."""
    for dtype, precision in (("bfloat16", None), ("float32", "tensorfloat32"), ("float32", "highest")):
        x, y = (jax.random.normal(jax.random.key(seed), (size, size), dtype) for seed in (1, 2))
        product = jax.jit(functools.partial(jnp.matmul, precision=precision))
        yield f"{size}, {precision or dtype}", 2 * size**3 / _best(product, x, y) / 1e12


def all_reduce_rate(num_bytes: int) -> float:
    """Returns the rate of a sum over all devices, in bytes per second and device.

    Each device sends and receives 2 (n - 1) / n times the size of the array, as in a ring.
    """
    devices = jax.devices()
    mesh = Mesh(np.array(devices), ("devices",))
    rows = PartitionSpec("devices")
    total = jax.jit(
        jax.shard_map(lambda x: jax.lax.psum(x, "devices"), mesh=mesh, in_specs=rows, out_specs=PartitionSpec())
    )
    array = jax.device_put(jnp.ones((len(devices), num_bytes // 4)), NamedSharding(mesh, rows))
    return 2 * (len(devices) - 1) / len(devices) * num_bytes / _best(total, array)


def _best(compute: Callable[..., jax.Array], *arguments: jax.Array, number: int = 10) -> float:
    """Returns the seconds per computation: the lowest of the mean times of several series."""
    compute(*arguments).block_until_ready()
    means = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(number):
            result = compute(*arguments)
        result.block_until_ready()
        means.append((time.perf_counter() - start) / number)
    return min(means)
