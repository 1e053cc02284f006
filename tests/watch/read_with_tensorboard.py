"""The scalars of RUN/tensorboard as TensorBoard's own reader has them, compared with RUN/log.jsonl.

usage: read_with_tensorboard.py RUN    with a Python that has tensorboard
"""
import json
import sys

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

run = sys.argv[1]
reader = EventAccumulator(run + '/tensorboard', size_guidance={'scalars': 0, 'histograms': 0})
reader.Reload()
with open(run + '/log.jsonl') as f:
    lines = [json.loads(line) for line in f]
wanted = {}
for e in lines:
    keys = {'step': ['loss', 'lr', 'grad_norm'], 'eval': ['loss', 'accuracy']}.get(e['event'], [])
    for key in keys:
        if e.get(key) is not None:
            wanted.setdefault(f"{e.get('split', 'train')}/{key}", []).append((e['step'], np.float32(e[key])))
for tag, values in wanted.items():
    read = [(s.step, np.float32(s.value)) for s in reader.Scalars(tag)]
    assert read == values, f'{tag}: {read[:3]} ..., the log has {values[:3]} ...'
    print(f'{tag}: {len(read)} values')
for what in 'start', 'end':
    content = reader.SummaryMetadata(f'_hparams_/session_{what}_info').plugin_data.content
    assert plugin_data_pb2.HParamsPluginData.FromString(content).HasField(f'session_{what}_info')
if reader.Tags()['graph']:
    print(f'graph of {len(reader.Graph().node)} nodes')
for tag in reader.Tags()['histograms']:
    h = reader.Histograms(tag)[-1].histogram_value
    assert h.num == sum(h.bucket) and h.min <= h.bucket_limit[0] and h.bucket_limit[-1] == h.max, f'{tag}: {h}'
    print(f'{tag}: {len(reader.Histograms(tag))} histograms, the last of {int(h.num)} numbers')
print(f'as the log: {sorted(wanted)}')
