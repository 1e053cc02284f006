"""Parameters told from constants by their values."""
import numpy as np
from onnx import numpy_helper


def among(a, values):
    """Which elements of a are among the values, which are sorted."""
    at = np.searchsorted(values, a)
    return values[np.minimum(at, len(values) - 1)] == a if len(values) else np.zeros(a.shape, bool)


def shown(p, there):
    """Does the file show a parameter: most of it (a sample tells), or rows of it (the positions that its length asks for)?"""
    if among(p.ravel()[::p.size // 20000 + 1], there).mean() > 0.5:
        return True
    rows = p.reshape(p.shape[0], -1) if p.ndim > 1 else p.reshape(1, -1)
    return rows.shape[1] > 3 and among(rows[:4096], there).all(1).any()


def flat(tensors):
    a = [np.asarray(t, 'f4').ravel() for t in tensors if np.size(t)]
    return np.unique(np.concatenate(a)) if a else np.zeros(0, 'f4')


def kinds(model, live, frozen, buffers):
    """What each float tensor of the file is: made of a parameter's values, of a frozen one's, of a buffer's, or none of them; and the
    parameters that it does not show. live, frozen: arrays by name; buffers: a list."""
    alive, held, kept = flat(live.values()), list(frozen.values()), flat(buffers)
    alive = alive[alive != 0] # a parameter may hold one by chance
    few = flat([p for p in live.values() if np.size(p) < 4]) # and any other single number
    tensors = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    tensors |= {n.output[0]: numpy_helper.to_array(a.t) for n in model.graph.node if n.op_type == 'Constant' for a in n.attribute if a.name == 'value'}
    tensors |= {f'{n.name}/{a.name}': np.array(a.floats, 'f4') for n in model.graph.node for a in n.attribute if a.floats}
    out = {}
    for name, a in tensors.items():
        if a.dtype != np.float32 or not a.size:
            continue
        some = a.ravel()[::a.size // 20000 + 1] # enough of them to tell
        share = among(some, alive if a.size > 3 else few).mean()
        kind = 'parameter' if share > 0.9 else 'part' if share > 0.3 else 'constant'
        if any(f.shape == a.shape and (f == a).all() for f in ([frozen[name]] if name in frozen else [] if name in live else held)):
            kind = 'frozen'
        elif kind != 'constant' and a.size > 1 and a.min() == a.max() and name not in live:
            kind = 'equal' # of one value, which others have too
        elif kind == 'constant' and among(some, kept).all() and a.min() != a.max():
            kind = 'buffer'
        out[name] = kind
    there = np.unique(np.concatenate([np.zeros(0, 'f4')] + [a.ravel() for n, a in tensors.items() if a.dtype == np.float32 and out.get(n) != 'constant']))
    return out, [n for n, p in live.items() if p.size and not shown(p, there)]
