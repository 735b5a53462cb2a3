"""Time a training step of a model in PyTorch on random data: the peer of step.py.

    torch_step.py DESCRIPTION LAYOUT BATCH THREADS STEPS WARMUP      prints a line of JSON

LAYOUT is default (NCHW) or channels_last.
"""
import json
import pathlib
import resource
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))

import torch  # noqa: E402
from paceline_torch import Model  # noqa: E402
from torch.nn import functional  # noqa: E402

description, layout, batch, threads, steps, warmup = sys.argv[1:]
batch, threads, steps, warmup = int(batch), int(threads), int(steps), int(warmup)
torch.set_num_threads(threads)
torch.set_flush_denormal(True)
generator = torch.Generator().manual_seed(1)
samples = torch.randint(256, (4 * batch, 3, 32, 32), generator=generator, dtype=torch.uint8)
labels = torch.randint(10, (4 * batch,), generator=generator)
memory_format = torch.channels_last if layout == "channels_last" else torch.contiguous_format
model = Model(json.loads(pathlib.Path(description).read_text()), (32, 32, 3), 10).to(
    memory_format=memory_format
)
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
seconds = []
for _ in range(warmup + steps):
    began = time.perf_counter()
    chosen = torch.randint(len(samples), (batch,), generator=generator)
    x = (samples[chosen].float() / 255).to(memory_format=memory_format)
    optimizer.zero_grad()
    functional.cross_entropy(model(x), labels[chosen]).backward()
    optimizer.step()
    seconds.append(time.perf_counter() - began)
print(
    json.dumps(
        {
            "seconds": statistics.median(seconds[warmup:]),
            "version": torch.__version__,
            "config": torch.__config__.show(),
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
    )
)
