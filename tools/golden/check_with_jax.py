#!/usr/bin/env python3
"""Checks golden files with JAX: trains each file's setting in float64 and compares.

usage: check_with_jax.py FILE.safetensors...
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import files

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

LOSS_TOLERANCE = 1e-11      # Relative.
GRADIENT_TOLERANCE = 1e-7   # Of the largest of its tensor: the files hold them in float32.


def convolution(x, kernel, bias):
    """Of (batch, height, width, in) with (3, 3, in, out), 'same' padding."""
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME",
                                        dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias


def pooling(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def mean_loss(weights, setting, samples, labels, kept):
    def dense(x, name):
        return jnp.dot(x, weights[name + ".w"]) + weights[name + ".bias"]

    x = samples
    if setting.model == "cifar10_cnn":
        for number, name in enumerate(setting.layers("conv"), start=1):
            x = convolution(x, weights[name + ".w"], weights[name + ".bias"])
            x = pooling(x) if number in (2, 4) else x
        x = x.reshape(x.shape[0], -1) * kept[0]
        x = dense(jax.nn.relu(dense(x, "dense1")), "dense2")
    else:
        x = x.reshape(x.shape[0], -1)
        *hidden, last = setting.layers("dense")
        for name, factors in zip(hidden, kept, strict=True):
            x = jax.nn.relu(dense(x, name)) * factors
        x = dense(x, last)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], axis=1)
    return -chosen.mean()


def adam(weight, gradient, m, v, t):
    """One update in Keras's form; returns the weight and both moments."""
    m = files.BETA1 * m + (1 - files.BETA1) * gradient
    v = files.BETA2 * v + (1 - files.BETA2) * gradient**2
    rate = files.LEARNING_RATE * jnp.sqrt(1 - files.BETA2**t) / (1 - files.BETA1**t)
    return weight - rate * m / (jnp.sqrt(v) + files.EPSILON), m, v


def check(path):
    """What differs, or nothing."""
    setting, tensors = files.read(path)
    weights = {name: jnp.asarray(value, jnp.float64) for name, value in setting.weights.items()}
    m = {name: jnp.zeros_like(value) for name, value in weights.items()}
    v = dict(m)
    step_of = jax.jit(jax.value_and_grad(
        lambda weights, *rest: mean_loss(weights, setting, *rest)))
    worst = 0.0
    for step in range(setting.steps):
        chosen = slice(step * setting.batch, (step + 1) * setting.batch)
        kept = [jnp.asarray(mask[step], jnp.float64) / (1 - rate)
                for mask, rate in zip(setting.kept, setting.rates, strict=True)]
        loss, gradients = step_of(weights, jnp.asarray(setting.samples[chosen], jnp.float64) / 255,
                                  jnp.asarray(setting.labels[chosen], jnp.int32), kept)
        want = tensors["loss.float64"][step]
        worst = max(worst, abs(float(loss) - want) / want)
        if not worst <= LOSS_TOLERANCE:
            return f"the loss of step {step + 1} is {loss}, in the file {want}"
        for name, gradient in gradients.items():
            if step == 0:
                stored = tensors["gradient." + name]
                error = np.abs(np.asarray(gradient) - stored).max() / np.abs(stored).max()
                if not error <= GRADIENT_TOLERANCE:
                    return f"the gradient of {name} differs by {error:.1e} of its largest value"
            weights[name], m[name], v[name] = adam(weights[name], gradient, m[name], v[name],
                                                   step + 1)
    print(f"{path}: JAX {jax.__version__} agrees; losses differ by up to {worst:.1e}")
    return None


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for path in sys.argv[1:]:
        wrong = check(path)
        if wrong:
            sys.exit(f"{path}: {wrong}")


if __name__ == "__main__":
    main()
