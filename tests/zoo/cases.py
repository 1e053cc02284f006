"""What every row of the zoo is: a network, its inputs and how it is exported."""
import numpy as np
import torch


class Case:
    """`output` names the output that is trained, the first of floats where it is left out; `export` is the library's own exporter."""
    def __init__(self, family, name, make, inputs, exports=('d1',), export=None, output=None):
        self.family, self.name, self.make, self.inputs, self.exports, self.export, self.output = family, name, make, inputs, exports, export, output


def by_name(module):
    return hasattr(module, 'config') and hasattr(module.config, 'model_type')


def normal(*shape):
    return lambda n, r: torch.from_numpy(r.standard_normal((n, *shape)).astype('f4'))


def ids(length, high, low=3):
    return lambda n, r: torch.from_numpy(r.integers(low, high, (n, length)))


def mask(length, most=0):
    """Ones, and zeros behind them: another length for each sample, `most` - 1 zeros or half of all."""
    return lambda n, r: torch.from_numpy((np.arange(length)[None] < np.array([length - i % (most or length // 2) for i in range(n)])[:, None]).astype('i8'))
