#!/usr/bin/env python3
"""The suite's models in JAX. docs/peers.md says what each setting is and why."""

import bench

bench.leave_path()

LEARNING_RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-7
SCANNED_STEPS = 25  # Of one call of a compiled scan.


class Trainer:
    """One model with Adam's state; the data set is resident, as bytes."""

    def __init__(self, inputs, scan, precision):
        import jax
        import jax.numpy as jnp
        self.jax, self.inputs, self.scan = jax, inputs, scan
        self.type = jnp.bfloat16 if precision == "bf16" else jnp.float32
        jax.config.update("jax_default_matmul_precision", "tensorfloat32" if precision == "tf32" else "float32")
        self.granularity = SCANNED_STEPS if scan else 1
        self.order = inputs.order.astype("int32").reshape(-1, inputs.batch)
        self.samples = jax.device_put(inputs.samples)
        self.labels = jax.device_put(inputs.labels.astype("int32"))
        one = jax.jit(self.one_step, donate_argnums=0)
        many = jax.jit(lambda state, *rest: jax.lax.scan(
            lambda carried, indices: self.one_step(carried, indices, *rest[1:]), state, rest[0]),
            donate_argnums=0)
        self.call = many if scan else one
        self.evaluated = jax.jit(lambda weights, pictures, labels: self.loss_of(weights, pictures, labels, None))
        self.label = "input=resident;" + ("launch=scan" if scan else "launch=jit")
        self.reset()

    def reset(self):
        import jax.numpy as jnp
        weights = {name: jnp.asarray(value) for name, value in self.inputs.weights.items()}
        zeros = lambda: {name: jnp.zeros_like(value) for name, value in weights.items()}
        key = self.jax.random.key(1, impl="rbg")  # Cheaper on CPUs than the default generator.
        self.state = (weights, zeros(), zeros(), jnp.zeros((), jnp.int32), key)
        self.step = 0

    def loss_of(self, weights, pictures, labels, key):
        """Mean loss; `key`: of the dropout masks, none for inference."""
        jax, jnp = self.jax, self.jax.numpy

        def dropout(x, rate, number):
            if key is None:
                return x
            kept = jax.random.bernoulli(jax.random.fold_in(key, number), 1 - rate, x.shape)
            return jnp.where(kept, x / (1 - rate), 0)

        def dense(x, name):
            return x @ weights[name + ".w"].astype(self.type) + weights[name + ".bias"].astype(self.type)

        x = (pictures.astype(jnp.float32) / 255).astype(self.type)
        for number, name in enumerate(self.inputs.layers("conv"), start=1):
            x = jax.lax.conv_general_dilated(x, weights[name + ".w"].astype(self.type), (1, 1), "SAME",
                                             dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = x + weights[name + ".bias"].astype(self.type)
            if number in (2, 4):
                x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = x.reshape(x.shape[0], -1)
        cnn = self.inputs.model == "cifar10_cnn"
        x = dropout(x, 0.3, 1) if cnn else x
        *hidden, last = self.inputs.layers("dense")
        for number, name in enumerate(hidden, start=1):
            x = jax.nn.relu(dense(x, name))
            x = x if cnn else dropout(x, 0.2, number)
        scores = jax.nn.log_softmax(dense(x, last).astype(jnp.float32))
        return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()

    def one_step(self, state, indices, samples, labels):
        """The state after a step, and its loss."""
        jax, jnp = self.jax, self.jax.numpy
        weights, m, v, step, key = state
        loss, gradients = jax.value_and_grad(self.loss_of)(
            weights, samples[indices], labels[indices], jax.random.fold_in(key, step))
        step = step + 1
        rate = LEARNING_RATE * jnp.sqrt(1 - BETA2**step) / (1 - BETA1**step)
        m = {name: BETA1 * m[name] + (1 - BETA1) * g for name, g in gradients.items()}
        v = {name: BETA2 * v[name] + (1 - BETA2) * g * g for name, g in gradients.items()}
        weights = {name: w - rate * m[name] / (jnp.sqrt(v[name]) + EPSILON)
                   for name, w in weights.items()}
        return (weights, m, v, step, key), loss

    def evaluate(self, count):
        return float(self.evaluated(self.state[0], self.samples[:count], self.labels[:count]))

    def train(self, steps):
        """Mean loss of the next steps, a multiple of the granularity but for the end of an epoch."""
        losses, done = [], 0
        while done < steps:
            first = self.step % len(self.order)
            taken = min(self.granularity, steps - done, len(self.order) - first)
            indices = self.order[first:first + taken] if self.scan else self.order[first]
            self.state, loss = self.call(self.state, indices, self.samples, self.labels)
            losses.append(loss)
            done += taken
            self.step += taken
        self.jax.block_until_ready(self.state)
        return float(sum(loss.sum() for loss in self.jax.device_get(losses))) / steps


class Peer(bench.Peer):
    script = "jax"
    title = "JAX"

    @property
    def precisions(self):
        """Without bf16 on CPUs, where XLA widens it: it took 1.1 to 2 times as long as fp32."""
        return super().precisions if self.device == "cuda" else ("fp32",)

    def scans(self, model):
        """Whether a scan is the best way: on CPUs a step of the CNN takes 60 times as long within one."""
        return self.device == "cuda" or model != "cifar10_cnn"

    def modes(self, model, precision):
        if not self.scans(model) or precision == "bf16" or (precision == "fp32" and self.device == "cuda"):
            return [bench.Mode()]
        return [bench.Mode(), bench.Mode("jit")]

    def versions(self, threads):
        import os
        if self.device == "cpu":
            os.environ["JAX_PLATFORMS"] = "cpu"
        # XLA has no flag for its threads: the process may use as many CPUs.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
        import jax
        import jaxlib
        if self.device == "cuda" and jax.default_backend() != "gpu":
            raise self.absent()
        return {"jax": jax.__version__, "jaxlib": jaxlib.__version__,
                "jax_device": jax.devices()[0].device_kind, "jax_threads": str(threads)}

    def instructions(self):
        return {"compiles for": "this CPU (XLA's own kernels)"} if self.device == "cpu" else {}

    def trainer(self, inputs, mode, precision, _threads):
        return Trainer(inputs, self.scans(inputs.model) and mode != "jit", precision)


if __name__ == "__main__":
    bench.main(Peer())
